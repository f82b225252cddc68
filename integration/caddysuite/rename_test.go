package main

import "testing"

func TestRename(t *testing.T) {
	const adapted = `{"handle": [
	{"headers": {"request": {"set": {"X-Forwarded-Method": ["{http.request.method}"]}}, "x": "}"},
	 "handler": "reverse_proxy"},
	{"handler": "reverse_proxy", "transport": {"protocol": "fastcgi"}},
	{"handler": "reverse_proxy"}]}`

	for _, tc := range []struct {
		name, text, want string
		count            renameCount
	}{
		{
			name:  "directive",
			text:  "example.com {\n\treverse_proxy localhost:80\n}",
			want:  "example.com {\n\tload_balance localhost:80\n}",
			count: renameCount{directives: 1},
		},
		{
			name:  "directive that stands alone or opens a block",
			text:  "reverse_proxy\r\n  reverse_proxy {\n\tto localhost:80\n}\nreverse_proxy",
			want:  "load_balance\r\n  load_balance {\n\tto localhost:80\n}\nload_balance",
			count: renameCount{directives: 3},
		},
		{
			name: "words that are no directive",
			text: "# see reverse_proxy\nreverse_proxy_x\nrespond reverse_proxy",
			want: "# see reverse_proxy\nreverse_proxy_x\nrespond reverse_proxy",
		},
		{
			name:  "header field",
			text:  "header {\n\treverse_proxy x\n}\nheader /a {\n\treverse_proxy x\n}\nreverse_proxy x",
			want:  "header {\n\treverse_proxy x\n}\nheader /a {\n\treverse_proxy x\n}\nload_balance x",
			count: renameCount{directives: 1},
		},
		{
			name: "placeholders and namespaces",
			text: "rewrite * /{http.reverse_proxy.status_code}\nhttp.reverse_proxy.transport.http\n{rp.status_code}",
			want: "rewrite * /{http.reverse_proxy.status_code}\nhttp.reverse_proxy.transport.http\n{rp.status_code}",
		},
		{
			name:  "handler in JSON",
			text:  `{"handler": "reverse_proxy", "x": "reverse_proxy"}, {"handler":"reverse_proxy"}`,
			want:  `{"handler": "load_balance", "x": "reverse_proxy"}, {"handler":"load_balance"}`,
			count: renameCount{handlers: 2},
		},
		{
			name:  "message",
			text:  "parsing caddyfile tokens for 'reverse_proxy': unrecognized",
			want:  "parsing caddyfile tokens for 'load_balance': unrecognized",
			count: renameCount{messages: 1},
		},
		{
			name: "what forward_auth expands to",
			text: ":80\nforward_auth a:1 {\n}\nreverse_proxy b:1\n----------\n" + adapted,
			want: ":80\nforward_auth a:1 {\n}\nload_balance b:1\n----------\n" + `{"handle": [
	{"headers": {"request": {"set": {"X-Forwarded-Method": ["{http.request.method}"]}}, "x": "}"},
	 "handler": "reverse_proxy"},
	{"handler": "load_balance", "transport": {"protocol": "fastcgi"}},
	{"handler": "load_balance"}]}`,
			count: renameCount{directives: 1, handlers: 2},
		},
		{
			name: "what php_fastcgi expands to",
			text: ":80\nphp_fastcgi a:1\n----------\n" + adapted,
			want: ":80\nphp_fastcgi a:1\n----------\n" + `{"handle": [
	{"headers": {"request": {"set": {"X-Forwarded-Method": ["{http.request.method}"]}}, "x": "}"},
	 "handler": "load_balance"},
	{"handler": "reverse_proxy", "transport": {"protocol": "fastcgi"}},
	{"handler": "load_balance"}]}`,
			count: renameCount{handlers: 2},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, count := rename(tc.text)
			if got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
			if count != tc.count {
				t.Errorf("got %+v, want %+v", count, tc.count)
			}
		})
	}
}

func TestUncheck(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		handlers         int
	}{
		{
			name:     "directive without a block",
			text:     "a {\n\tload_balance {host}:80 b:1\n}",
			want:     "a {\n\tload_balance {host}:80 b:1 {\n\t\thealth_protocol none\n\t}\n}",
			handlers: 1,
		},
		{
			name:     "directive with a block",
			text:     "a {\n\tload_balance b:1 {\n\t\tlb_retries 1\n\t}\n}",
			want:     "a {\n\tload_balance b:1 {\n\t\thealth_protocol none\n\t\tlb_retries 1\n\t}\n}",
			handlers: 1,
		},
		{
			name:     "directive with nothing but a block",
			text:     "load_balance {\n\tto b:1\n}",
			want:     "load_balance {\n\thealth_protocol none\n\tto b:1\n}",
			handlers: 1,
		},
		{
			name:     "handler",
			text:     `[{"handler": "load_balance", "upstreams": []}]`,
			want:     `[{"handler": "load_balance", "health_checks": {"active": {"protocol": "none"}}, "upstreams": []}]`,
			handlers: 1,
		},
		{
			name: "others",
			text: "reverse_proxy b:1 {\n}\n{\"handler\": \"reverse_proxy\"}\nload_balancer x",
			want: "reverse_proxy b:1 {\n}\n{\"handler\": \"reverse_proxy\"}\nload_balancer x",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, handlers := uncheck(tc.text)
			if got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
			if handlers != tc.handlers {
				t.Errorf("got %d handlers, want %d", handlers, tc.handlers)
			}
		})
	}
}
