"use strict";
// What was shown in the last five minutes, by informer: the server keeps nothing.
const kept = 300, past = new Map();
// The details that are open, because the page is redrawn each second.
const opened = new Set();

const by = id => document.getElementById(id);
function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) if (v) e.setAttribute(k, v);
  e.append(...children.map(c => c instanceof Node ? c : String(c)));
  return e;
}
const count = n => Number(n).toLocaleString("en");
const counted = (n, what, more) => `${count(n)} ${n === 1 ? what : more}`;
function bytes(n) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return (n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)) + " " + unit;
    n /= 1000;
  }
}
function span(seconds) {
  if (seconds < 0) seconds = 0;
  if (seconds < 0.01) return (seconds * 1000).toFixed(1) + " ms";
  if (seconds < 1) return Math.round(seconds * 1000) + " ms";
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  return Math.round(seconds / 3600) + " h";
}
const between = (now, t) => (new Date(now) - new Date(t)) / 1000;
const since = (now, t) => span(between(now, t));
const clock = t => new Date(t).toLocaleTimeString();

function chart(caption, values, write) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), wide = Math.max(values.length, 60);
  svg.setAttribute("viewBox", `0 0 ${wide} 36`);
  svg.setAttribute("preserveAspectRatio", "none");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline"), most = Math.max(...values, 1e-9);
  line.setAttribute("points", values.map((v, i) => `${wide - values.length + i},${35 - 33 * v / most}`).join(" "));
  svg.append(line);
  const last = write(values.at(-1) ?? 0), top = write(Math.max(...values, 0));
  return el("figure", {title: `the last ${span(values.length)}`}, svg,
    el("figcaption", {}, `${caption} ${last}` + (top !== last ? `, at most ${top}` : "")));
}

// charts draws the last minutes of what is named: [caption, value, write, whether it is a total
// whose growth counts].
function charts(id, now, series) {
  const p = past.get(id) || {at: now, last: {}, values: {}};
  const seconds = Math.max(between(now, p.at), 0.001);
  for (const [caption, value, , total] of series) {
    const values = p.values[caption] ||= [];
    values.push(total ? Math.max(0, (value - (p.last[caption] ?? value)) / seconds) : value);
    p.values[caption] = values.slice(-kept);
    p.last[caption] = value;
  }
  p.at = now;
  past.set(id, p);
  return el("div", {class: "charts"}, ...series.map(([caption, , write]) => chart(caption, p.values[caption], write)));
}

// table makes a table; in a narrow window each row is a list, whose labels are those of the head.
function table(head, rows) {
  const row = cells => el("tr", {}, ...cells.map(([text, cls], n) => el("td", {class: cls, "data-label": head[n][0]}, text)));
  return el("div", {}, el("table", {}, el("thead", {}, el("tr", {}, ...head.map(([text, cls]) => el("th", {class: cls}, text)))), el("tbody", {}, ...rows.map(row))));
}
function details(id, summary, content) {
  const d = el("details", {}, el("summary", {}, summary));
  if (opened.has(id)) { d.open = true; d.append(content()); }
  d.addEventListener("toggle", () => { // what is closed is not drawn
    if (d.open === opened.has(id)) return;
    if (d.open) { opened.add(id); d.append(content()); } else opened.delete(id);
  });
  return d;
}

const sum = memory => Object.values(memory).reduce((a, b) => a + b, 0);
const memoryText = memory => Object.entries(memory).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).map(([k, n]) => `${k} ${bytes(n)}`).join(", ") || "none";
const relistText = relists => Object.entries(relists || {}).map(([reason, n]) => `${count(n)} ${reason.replaceAll("_", " ")}`).join(", ");

function facts(pairs) {
  return el("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
function phaseOf(now, r) {
  let phase = `${r.phase} for ${since(now, r.since)}`;
  if (r.queued) phase += ", waits for its turn";
  else if (r.phase === "listing") phase += `, ${count(r.listed)}` + (r.remaining > 0 ? ` of ${count(r.listed + r.remaining)}` : "");
  if (r.nextRetry) phase += `, next try in ${span(-between(now, r.nextRetry))}`;
  return phase;
}
const trouble = (now, r) => r.error || (r.lastError ? `${since(now, r.lastErrorAt)} ago: ${r.lastError}` : "");

function transitions(now, id, r) {
  return details(id, `what it did last (${r.transitions.length})`, () => table([["ago", "n"], ["what happened"], ["what followed"]],
    r.transitions.toReversed().map(t => [[since(now, t.time), "n"], [t.after + (t.error ? ": " + t.error : ""), t.error ? "text bad" : "text"],
      [(t.next || t.phase).replace(/^(wait .*\.\d)\d+(m?s)$/, "$1$2") + (t.reason ? `, because ${t.reason.replaceAll("_", " ")}` : ""), "text"]])));
}

function reflectors(now, id, all) {
  const rows = all.map(r => [[[r.namespace, r.selector].filter(Boolean).join(" ") || (r.scopeUnknown ? "not known" : "all"), "text"], [phaseOf(now, r), "text"],
    [r.heard ? since(now, r.heard) : "never", "n"], [r.currentAt ? since(now, r.currentAt) : "never", "n"], [count(r.relists), "n"], [trouble(now, r), r.error ? "text bad" : "text quiet"]]);
  return [table([["reflector of"], ["state"], ["heard", "n"], ["current", "n"], ["relists", "n"], ["trouble"]], rows),
    ...all.map((r, n) => transitions(now, `${id} ${n}`, r))];
}

function handlers(name, all) {
  const rows = all.map(h => {
    const now = h.key ? el("span", {}, `${h.doing} ${span(h.busySeconds)} `, keyButton({informer: name}, h.key)) : "idle";
    const resync = h.resyncSeconds ? `${Math.round(100 * h.resyncFraction)} % of ${span(h.resyncSeconds)}` : "none";
    return [[h.name, "text"], [h.synced ? "yes" : "no", h.synced ? "good" : "bad"], [count(h.events), "n"],
      [count(h.lag) + (h.pendingKeys ? ` (${count(h.pendingKeys)} keys)` : ""), h.lag ? "n bad" : "n"], [now, "text"], [span(h.longestSeconds), "n"],
      [resync, "n"], [count(h.panics), h.panics ? "n bad" : "n"]];
  });
  return table([["handler"], ["synced"], ["events", "n"], ["lag", "n"], ["now"], ["longest call", "n"], ["resync", "n"], ["panics", "n"]], rows);
}

function informer(now, i) {
  const memory = sum(i.memoryBytes), id = "informer " + i.name;
  return el("section", {}, el("h2", {}, i.name, el("span", {class: "quiet"}, i.apiVersion ? ` ${i.apiVersion} ${i.kind || i.resource}` : "")), facts([
    ["objects", `${count(i.objects)}, ${bytes(memory)}` + (i.rawBytes ? `; as received ${bytes(i.rawBytes)}` : "")],
    ["memory", memoryText(i.memoryBytes)], ["resourceVersion", i.resourceVersion || "none yet"],
    ["requests", i.requests && `${counted(i.requests.lists, "list", "lists")}, ${counted(i.requests.watches, "watch", "watches")}, ${bytes(i.requests.receivedBytes)} received`],
    ["relists", relistText(i.relistsBy)],
  ]), charts(id, now, [
    ["events/s", i.handlers.reduce((a, h) => a + h.events, 0), n => count(Math.round(n)), true], ["memory", memory, bytes],
    ["lag", Math.max(0, ...i.handlers.map(h => h.lag)), count], ["received/s", i.requests?.receivedBytes ?? 0, bytes, true],
  ]), ...reflectors(now, id, i.reflectors), i.handlers.length ? handlers(i.name, i.handlers) : "");
}

function resource(now, p, r) {
  const memory = sum(r.memoryBytes), id = `proxy ${p.name} ${r.fullName}`;
  return el("section", {}, el("h2", {}, r.name, el("span", {class: "quiet"}, ` ${r.version} `), el("span", {class: r.state === "current" ? "good" : "bad"}, r.state)),
    r.error ? el("p", {class: "bad"}, r.error) : "", facts([
      ["objects", `${count(r.objects)}, ${bytes(memory)}` + (r.rawBytes ? `; as received ${bytes(r.rawBytes)}` : "")],
      ["memory", memoryText(r.memoryBytes)], ["resourceVersion", r.resourceVersion || "none yet"],
      ["upstream", (r.heard ? `heard ${since(now, r.heard)} ago, ` : "never heard, ") + `${counted(r.events, "event", "events")}, ${counted(r.sessions, "session", "sessions")}`],
      ["served", `${count(r.listsServed)} LISTs, ${count(r.gets)} GETs, ${count(r.sent)} events` + (r.lastRead ? `; read ${since(now, r.lastRead)} ago` : "")],
      ["watchers", `${count(r.watchers)}; the slowest is ${counted(r.lag, "change", "changes")} behind, ${bytes(r.backlogBytes)} kept` +
        (r.caughtUp ? `; ${count(r.caughtUp)} caught up from the state` : "") + (r.stalled ? `; ${count(r.stalled)} ended because their clients read nothing` : "")],
      ["relists", relistText(r.relistsBy)],
    ]), charts(id, now, [["events/s", r.events, n => count(Math.round(n)), true], ["memory", memory, bytes], ["watchers", r.watchers, count], ["lag", r.lag, count]]),
    ...(r.reflector ? reflectors(now, id, [r.reflector]) : []));
}

function proxy(now, p) {
  return el("section", {class: "proxy"}, el("h2", {}, "proxy ", p.name), facts([
    ["clients", `${counted(p.connections, "connection", "connections")}, ${counted(p.longRunning, "long-running request", "long-running requests")}, ${bytes(p.watchBytes)}; ${counted(p.forwardedWatches, "watch", "watches")} forwarded`],
    ["upstream", `${counted(p.lists, "list", "lists")}, ${counted(p.watches, "watch", "watches")}, ${bytes(p.receivedBytes)} received; ${counted(p.forwarded, "request", "requests")} forwarded, ${count(p.unanswered)} not answered`],
    ["on demand", p.budgetBytes > 0 && `${bytes(p.budgetUsedBytes)} of ${bytes(p.budgetBytes)}`],
    ["revoked", p.revokedWatches && counted(p.revokedWatches, "watch", "watches")],
  ]), charts("proxy " + p.name, now, [
    ["connections", p.connections, count], ["watches", p.longRunning, count], ["forwarded/s", p.forwarded, n => count(Math.round(n)), true], ["received/s", p.receivedBytes, bytes, true],
  ]), (p.watchers || []).length ? table([["watchers", "n"], ["of"], ["user"], ["client"], ["oldest", "n"]], p.watchers.map(w => [[count(w.count), "n"],
    [[w.resource, w.namespace && "in " + w.namespace, w.selector].filter(Boolean).join(" "), "text"], [w.user, "text"], [w.agent, "text"], [since(now, w.since), "n"]])) : "",
    p.watchersMore ? el("p", {class: "quiet"}, `and ${count(p.watchersMore)} other kinds of watches`) : "",
    el("div", {class: "resources"}, ...p.resources.map(r => resource(now, p, r))));
}

// The history of one object: read while it is shown, and not a moment longer.
let following = null;

function keyButton(of, key) {
  const b = el("button", {class: "key", type: "button", title: "the changes of this object"}, key);
  // Not at the click: the button is redrawn before that ends.
  b.addEventListener("pointerdown", () => follow(of, key));
  b.addEventListener("click", () => follow(of, key)); // by the keyboard
  return b;
}

function unfollow() {
  following?.close();
  following = null;
  by("history").hidden = true;
}

function follow(of, key) {
  if (following && following.of === JSON.stringify(of) && following.key === key) return;
  unfollow();
  const query = new URLSearchParams({...of, key}).toString();
  by("title").textContent = key;
  by("held").textContent = "";
  by("json").href = "history?" + query;
  by("changes").replaceChildren();
  by("history").hidden = false;
  by("key").value = key;
  by("of").value = JSON.stringify(of);
  following = new EventSource("history/stream?" + query);
  following.of = JSON.stringify(of);
  following.key = key;
  following.onmessage = m => {
    const c = JSON.parse(m.data);
    if ("held" in c) {
      by("held").textContent = c.held ? `is stored at ${c.resourceVersion}; its changes appear below` : "is not stored; it appears when it is created";
      by("changes").replaceChildren();
      return;
    }
    if (c.time) by("held").textContent = c.type === "DELETED" ? "was deleted; it appears when it is created again" : `is stored at ${c.resourceVersion}`;
    const head = `${c.time ? clock(c.time) : "before"} ${c.type} ${c.resourceVersion || ""}` + (c.coalesced ? ", of several changes" : "");
    const lines = c.lines.map(l => el("span", {class: {"+": "good", "-": "bad"}[l[0]]}, l + "\n"));
    if (c.more) lines.push(`and ${count(c.more)} more\n`);
    if (c.type === "MODIFIED" && !c.lines.length) lines.push("nothing but the resourceVersion and managedFields\n");
    by("changes").prepend(el("li", {}, el("span", {class: "quiet"}, head), el("pre", {}, ...lines)));
    while (by("changes").children.length > 200) by("changes").lastChild.remove();
  };
  following.onerror = () => { if (following?.readyState === EventSource.CLOSED) by("held").textContent = "cannot be shown: no such informer, or too many histories are open"; };
}

by("look").addEventListener("submit", e => {
  e.preventDefault();
  const key = by("key").value.trim();
  if (key && by("of").value) follow(JSON.parse(by("of").value), key);
});
by("close").addEventListener("click", unfollow);

// choices keeps what can be chosen in the form, without a redraw while nothing changes.
function choices(r) {
  const all = [...r.informers.map(i => [i.name, {informer: i.name}]),
    ...(r.proxies || []).flatMap(p => p.resources.map(x => [`${x.fullName} of ${p.name}`, {proxy: p.name, resource: x.fullName}]))];
  const was = [...by("of").options].map(o => o.value), is = all.map(([, of]) => JSON.stringify(of));
  if (was.join() === is.join()) return;
  const chosen = by("of").value;
  by("of").replaceChildren(...all.map(([text], n) => el("option", {value: is[n]}, text)));
  if (is.includes(chosen)) by("of").value = chosen;
}

const stream = new EventSource("stream");
stream.onmessage = m => {
  const r = JSON.parse(m.data), proxies = r.proxies || [];
  const shown = new Set([...r.informers.map(i => "informer " + i.name), ...proxies.map(p => "proxy " + p.name),
    ...proxies.flatMap(p => p.resources.map(x => `proxy ${p.name} ${x.fullName}`))]);
  for (const id of past.keys()) if (!shown.has(id)) past.delete(id);
  choices(r);
  by("all").replaceChildren(...proxies.map(p => proxy(r.time, p)), ...r.informers.map(i => informer(r.time, i)));
  const running = [proxies.length && counted(proxies.length, "proxy", "proxies"), r.informers.length && counted(r.informers.length, "informer", "informers")];
  by("state").textContent = `${running.filter(Boolean).join(", ") || "none is"} running, ${clock(r.time)}`;
  by("state").className = "quiet";
};
stream.onerror = () => { by("state").textContent = "not connected"; by("state").className = "bad"; };
