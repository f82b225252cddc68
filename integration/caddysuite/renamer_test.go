package main

import "testing"

func TestVerify(t *testing.T) {
	r := newRenamer([]exception{{function: "F"}})
	if err := r.verify(); err == nil {
		t.Error("nothing renamed, and no error")
	}
	r.edit("", "reverse_proxy a:1\n{\"handler\": \"reverse_proxy\"}")
	if err := r.verify(); err == nil {
		t.Error("an idle exception, and no error")
	}
	r.edit("F", "reverse_proxy a:1")
	if err := r.verify(); err != nil {
		t.Error(err)
	}
	if got := r.exceptions["F"]; got != 1 {
		t.Errorf("got %d handlers without checks, want 1", got)
	}
}
