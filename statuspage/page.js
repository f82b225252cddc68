"use strict";
(() => {
	const $ = (id) => document.getElementById(id);
	const quiet = 5000; // without news for longer than this, the page says so
	const samples = 60; // of a plot, one a second or so

	let ahead = Number(document.body.dataset.now) - Date.now(); // of the server's clock
	let heard = performance.now();
	let stream = null;
	const made = new Map(); // elements not in their place yet, by key
	const past = new Map(); // traffic of the last minute, by key

	document.documentElement.classList.add("js");

	// span and group write times and numbers as the server does.
	function span(ms) {
		const s = Math.floor(Math.max(ms, 0) / 1000);
		const two = (n) => String(n).padStart(2, "0");
		if (s < 60) return s + "s";
		if (s < 3600) return Math.floor(s / 60) + "m\u00a0" + two(s % 60) + "s";
		if (s < 86400) return Math.floor(s / 3600) + "h\u00a0" + two(Math.floor(s / 60) % 60) + "m";
		return Math.floor(s / 86400) + "d\u00a0" + (Math.floor(s / 3600) % 24) + "h";
	}
	const group = (n) => n.toLocaleString("en-US");
	const rate = (n) => (n >= 100 ? group(Math.round(n)) : n === 0 ? "0" : n.toFixed(1)) + "/s";

	function write(element, text) {
		if (element.textContent !== text) element.textContent = text;
	}

	// tick brings all times up to date.
	function tick() {
		const now = Date.now() + ahead;
		for (const t of document.querySelectorAll("time[data-until]")) {
			const left = Number(t.dataset.until) - now;
			write(t, left >= 1000 ? "in " + span(left) : "now");
		}
		for (const t of document.querySelectorAll("time[data-since]")) {
			write(t, span(now - Number(t.dataset.since)));
		}
		const silence = performance.now() - heard;
		if (silence > quiet) live("lost", "no news for " + span(silence));
	}

	function live(kind, text) {
		$("live").className = "live " + kind;
		write($("live"), text);
	}

	// morph makes an element like another one, touching only what differs, so
	// that a selection stays.
	function morph(old, next) {
		if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
			old.replaceWith(next);
			return;
		}
		if (old.nodeType !== Node.ELEMENT_NODE) {
			if (old.data !== next.data) old.data = next.data;
			return;
		}
		for (const { name } of [...old.attributes]) {
			if (!next.hasAttribute(name)) old.removeAttribute(name);
		}
		for (const { name, value } of next.attributes) {
			if (old.getAttribute(name) !== value) old.setAttribute(name, value);
		}
		if (old.hasAttribute("data-keep")) return;
		const before = [...old.childNodes];
		const after = [...next.childNodes];
		if (before.length !== after.length) {
			old.replaceChildren(...after);
			return;
		}
		before.forEach((node, i) => morph(node, after[i]));
	}

	// put shows a part, which the server has rendered and escaped.
	function put(key, html) {
		const holder = document.createElement("template");
		holder.innerHTML = html;
		const next = holder.content.firstElementChild;
		const old = $(key);
		if (!old) {
			made.set(key, next);
			return;
		}
		const moved = old.classList.contains("row") && old.classList[1] !== next.classList[1];
		morph(old, next);
		if (moved) flash(old);
	}

	function flash(row) {
		row.classList.add("flash");
		setTimeout(() => row.classList.remove("flash"), 2500);
	}

	// place makes elements the children of another one, in that order.
	function place(parent, elements) {
		let at = parent.firstElementChild;
		for (const element of elements) {
			if (element === at) at = at.nextElementSibling;
			else parent.insertBefore(element, at);
		}
		while (at) {
			const next = at.nextElementSibling;
			at.remove();
			at = next;
		}
	}

	function arrange(layout) {
		const get = (key) => made.get(key) || $(key);
		place($("pools"), layout.map((block) => {
			const pool = get(block.pool);
			place(pool.querySelector("tbody"), block.rows.map(get));
			return pool;
		}));
		made.clear();
		for (const key of past.keys()) {
			if (!$(key)) past.delete(key);
		}
	}

	// count notes the traffic at a time; keys that are not told of have none.
	function count(now, told) {
		for (const [key, counts] of Object.entries(told)) {
			if (!past.has(key)) past.set(key, { counts, then: now, rates: [] });
			else past.get(key).next = counts;
		}
		for (const p of past.values()) {
			const took = (now - p.then) / 1000;
			if (took <= 0) continue;
			const next = p.next || p.counts;
			p.rates.push([1, 2].map((i) => Math.max(next[i] - p.counts[i], 0) / took));
			if (p.rates.length > samples) p.rates.shift();
			p.counts = next;
			p.then = now;
			p.next = null;
		}
	}

	// draw shows traffic: numbers, rates, plots.
	function draw() {
		for (const holder of document.querySelectorAll("[data-of]")) {
			const p = past.get(holder.dataset.of);
			if (!p) continue;
			for (const n of holder.querySelectorAll("[data-count]")) {
				write(n, group(p.counts[n.dataset.count]));
				if (n.dataset.count === "2") n.closest("td, div").classList.toggle("some", p.counts[2] > 0);
			}
			const last = p.rates.slice(-3); // smooth enough to be read
			for (const n of holder.querySelectorAll("[data-rate]")) {
				const sum = last.reduce((all, r) => all + r[n.dataset.rate - 1], 0);
				write(n, last.length ? rate(sum / last.length) : "–");
			}
			plot(holder.querySelector("[data-plot]"), p.rates);
		}
	}

	function plot(svg, rates) {
		if (rates.length < 2) return;
		const top = Math.max(1, ...rates.map((r) => r[0]));
		const line = (i) => rates.map((r, at) =>
			(at ? "L" : "M") + (samples - rates.length + at) + " " + (19 - 18 * Math.min(r[i] / top, 1)).toFixed(1)).join("");
		const [area, requests, errors] = svg.children;
		requests.setAttribute("d", line(0));
		area.setAttribute("d", line(0) + "V20H" + (samples - rates.length) + "Z");
		errors.setAttribute("d", rates.some((r) => r[1] > 0) ? line(1) : "");
	}

	function show(message) {
		const whole = message.whole;
		ahead = message.now - Date.now();
		for (const [key, html] of Object.entries(message.parts || {})) put(key, html);
		if (message.layout || whole) arrange(message.layout || []);
		count(message.now, message.counts || {});
		draw();
		tick();
		document.title = $("summary").dataset.title;
		const newest = $("log").firstElementChild;
		if (!whole && message.parts && message.parts.log && newest) {
			$("said").textContent = newest.textContent;
		}
	}

	// listen opens the stream of what the search asks for.
	function listen() {
		if (stream) stream.close();
		const query = new URLSearchParams({ stream: "", q: $("q").value });
		if ($("troubled").checked) query.set("troubled", "1");
		stream = new EventSource("?" + query);
		stream.onmessage = (event) => {
			heard = performance.now();
			live("on", "live");
			show(JSON.parse(event.data));
		};
		stream.onerror = () => {
			live("lost", "connection lost, trying again");
			if (stream.readyState === EventSource.CLOSED) setTimeout(reload, 5000);
		};
	}

	// reload loads the page again, once there is one: for when the server
	// refuses the stream.
	function reload() {
		fetch("").then((answer) => {
			if (answer.ok) location.reload();
			else setTimeout(reload, 5000);
		}, () => setTimeout(reload, 5000));
	}

	let typing = 0;
	function search() {
		clearTimeout(typing);
		typing = setTimeout(() => {
			const query = new URLSearchParams();
			if ($("q").value) query.set("q", $("q").value);
			if ($("troubled").checked) query.set("troubled", "1");
			history.replaceState(null, "", "?" + query);
			listen();
		}, 200);
	}
	$("q").addEventListener("input", search);
	$("troubled").addEventListener("change", search);
	$("search").addEventListener("submit", (event) => {
		event.preventDefault();
		search();
	});

	live("", "connecting");
	tick();
	setInterval(tick, 1000);
	listen();
})();
