"use strict";
const by = id => document.getElementById(id);

// el returns a new element. Attributes without a value are left out.
function el(name, attributes, ...children) {
  const e = name === "svg" || name === "polyline" ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) if (v || v === 0) e.setAttribute(k, v === true ? "" : v);
  e.append(...children.flat().filter(c => c !== "" && c !== null && c !== undefined && c !== false));
  return e;
}

// morph changes an element so that it equals another one, and keeps what did not change: its focus,
// the user's selection, what is open and what was typed. Children with the attribute data-key are
// found by it, others by their place. An element with data-own keeps its children.
function morph(old, now) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== now.data && !isSelected(old)) old.data = now.data;
    return;
  }
  if (old.hasAttribute("data-own")) return;
  for (const {name} of [...old.attributes]) if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const {name, value} of now.attributes) if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  fill(old, [...now.childNodes]);
}
function fill(parent, children) {
  const keyed = new Map();
  for (const c of parent.children) if (c.dataset.key) keyed.set(c.dataset.key, c);
  let at = parent.firstChild;
  for (const child of children) {
    const key = child.dataset?.key;
    const same = key ? keyed.get(key) : at && !at.dataset?.key && at.nodeName === child.nodeName ? at : null;
    if (!same) { parent.insertBefore(child, at); continue; }
    if (same === at) at = at.nextSibling; else move(parent, same, at);
    morph(same, child);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}
// The nodes in which the user's selection starts and ends, at the start of an update. To ask for
// the selection after each change would cause a layout each time.
let ends = [];
const isSelected = node => ends.some(end => node.contains(end));
// move moves a child without losing the focus.
function move(parent, child, before) {
  if (parent.moveBefore && child.parentNode === parent) return parent.moveBefore(child, before);
  const focused = child.contains(document.activeElement) && document.activeElement;
  parent.insertBefore(child, before);
  if (focused) focused.focus({preventScroll: true});
}
// setText sets the text of an element, unless the user's selection starts or ends in it. It reports
// whether the element has the text.
function setText(e, text) {
  if (e.textContent !== text && !isSelected(e)) e.textContent = text;
  return e.textContent === text;
}

const count = n => Number(n).toLocaleString("en");
const counted = (n, what, more) => `${count(n)} ${n === 1 ? what : more}`;
function bytes(n) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return (n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)) + "\u00a0" + unit;
    n /= 1000;
  }
}
const figure = n => n < 10 && n % 1 ? n.toFixed(1) : count(Math.round(n));
function span(seconds) {
  if (seconds < 0) seconds = 0;
  if (seconds < 0.01) return (seconds * 1000).toFixed(1) + " ms";
  if (seconds < 1) return Math.round(seconds * 1000) + " ms";
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " days";
}
const between = (now, t) => (new Date(now) - new Date(t)) / 1000;
const since = (now, t) => span(between(now, t));
const clock = t => new Date(t).toLocaleTimeString();
// age is coarse, so that the row of a healthy informer does not change every second.
const age = (now, t) => !t ? "never" : between(now, t) < 120 ? "< 2 min" : since(now, t);

// charts draws what the server has recorded: a point for every ten seconds, the newest at the
// right.
function charts(all) {
  return el("div", {"data-key": "charts"}, el("h3", {}, "Last half hour"), el("div", {class: "charts"}, all.map(s => {
    const write = s.bytes ? bytes : figure, most = Math.max(...s.points, 0), last = s.points.at(-1) ?? 0;
    const text = s.points.length ? `${s.name} ${write(last)}` + (write(most) !== write(last) ? `, at most ${write(most)}` : "") : `${s.name}: no point yet`;
    const points = s.points.map((v, i) => `${180 - s.points.length + i},${Math.round(350 - 330 * v / (most || 1)) / 10}`).join(" ");
    return el("figure", {}, el("svg", {viewBox: "0 0 179 36", preserveAspectRatio: "none", role: "img", "aria-label": `chart of the last half hour: ${text}`}, el("polyline", {points})),
      el("figcaption", {}, text));
  })));
}

function facts(pairs) {
  return el("dl", {}, pairs.filter(([, value]) => value).flatMap(([name, value, cls]) => [el("dt", {}, name), el("dd", {class: cls}, value)]));
}
const memoryText = memory => Object.entries(memory || {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).map(([k, n]) => `${k} ${bytes(n)}`).join(", ") || "none";
const relistText = relists => Object.entries(relists || {}).map(([reason, n]) => `${count(n)} ${reason.replaceAll("_", " ")}`).join(", ");

function phaseOf(now, r) {
  let phase = `${r.phase} for ${since(now, r.since)}`;
  if (r.queued) phase += ", waits for its turn";
  else if (r.phase === "listing") phase += `, ${count(r.listed)}` + (r.remaining > 0 ? ` of ${count(r.listed + r.remaining)}` : "");
  if (r.nextRetry) phase += `, next try in ${span(-between(now, r.nextRetry))}`;
  return phase;
}

function reflector(now, r) {
  const scope = [r.namespace, r.selector].filter(Boolean).join(" ") || (r.scopeUnknown ? "unknown scope" : "all objects");
  return el("div", {"data-key": "reflector of " + scope}, el("h3", {}, "Reflector of " + scope), facts([
    ["state", phaseOf(now, r)], ["heard", r.heard ? since(now, r.heard) + " ago" : "never"], ["current", r.currentAt ? since(now, r.currentAt) + " ago" : "never"],
    ["relists", count(r.relists) + (r.relistsInParts ? `, ${count(r.relistsInParts)} in parts` : "")], ["unreadable", r.unreadable && counted(r.unreadable, "object", "objects"), "bad"],
    ["attempts", r.attempts && counted(r.attempts, "failure", "failures") + " in a row"],
    ["error", r.error, "bad"], ["last error", !r.error && r.lastError && `${since(now, r.lastErrorAt)} ago: ${r.lastError}`],
  ]), el("details", {}, el("summary", {}, `Last transitions (${r.transitions.length})`), el("ol", {}, r.transitions.toReversed().map(t => el("li", {"data-key": t.time + t.next + t.phase},
    el("span", {class: "quiet"}, `${clock(t.time)} `), el("span", {class: t.error && "bad"}, t.after + (t.error ? ": " + t.error : "")),
    " → " + (t.next || t.phase).replace(/^(wait .*\.\d)\d+(m?s)$/, "$1$2") + (t.reason ? `, because ${t.reason.replaceAll("_", " ")}` : ""))))));
}

function handler(h) {
  return el("div", {}, el("h3", {}, "Handler " + h.name), facts([
    ["synced", h.synced ? "yes" : "no", h.synced ? "good" : "bad"], ["events", count(h.events)], ["lag", counted(h.lag, "change", "changes") + (h.pendingKeys ? `, ${count(h.pendingKeys)} keys` : "")],
    ["now", h.key ? [`${h.doing} for ${span(h.busySeconds)}: `, el("button", {type: "button", class: "link", "data-look": h.key, title: "show the changes of this object"}, h.key)] : "idle"],
    ["longest call", span(h.longestSeconds)], ["resync", h.resyncSeconds && `${Math.round(100 * h.resyncFraction)} % of ${span(h.resyncSeconds)}`],
    ["panics", h.panics && count(h.panics), "bad"],
  ]));
}

// look is the form that opens the changes of one object. The server sends them while they are open.
function look(item) {
  return el("div", {"data-key": "look"}, el("h3", {}, "Changes of one object"), el("form", {class: "look"},
    el("label", {}, "Key ", el("input", {name: "key", placeholder: "namespace/name", autocomplete: "off", spellcheck: "false"})), " ", el("button", {}, "Look")),
    el("div", {class: "history", "data-own": true}));
}

function informerDetails(now, i) {
  return [charts(i.series || []), el("div", {class: "cards", "data-key": "cards"},
    el("div", {"data-key": "contents"}, el("h3", {}, "Contents"), facts([
      ["kind", i.apiVersion && `${i.apiVersion} ${i.kind || i.resource}`], ["objects", count(i.objects)], ["memory", `${bytes(i.totalBytes)}: ${memoryText(i.memoryBytes)}`],
      ["as received", i.rawBytes && bytes(i.rawBytes)], ["version", i.resourceVersion || "none yet"],
      ["requests", i.requests && `${counted(i.requests.lists, "list", "lists")}, ${counted(i.requests.watches, "watch", "watches")}, ${bytes(i.requests.receivedBytes)} received`],
      ["relists", relistText(i.relistsBy)]])),
    (i.reflectors || []).map(r => reflector(now, r)), (i.handlers || []).map(handler), look(i))];
}

function resourceDetails(now, r) {
  return [charts(r.series || []), el("div", {class: "cards", "data-key": "cards"},
    el("div", {"data-key": "contents"}, el("h3", {}, "Contents"), facts([
      ["state", r.state + (r.configured ? "" : ", cached on demand")], ["objects", count(r.objects)], ["memory", `${bytes(r.totalBytes)}: ${memoryText(r.memoryBytes)}`],
      ["as received", r.rawBytes && bytes(r.rawBytes)], ["version", r.resourceVersion || "none yet"], ["error", r.error, "bad"],
      ["upstream", `${counted(r.events, "event", "events")}, ${counted(r.sessions, "session", "sessions")}`], ["relists", relistText(r.relistsBy)]])),
    el("div", {}, el("h3", {}, "Clients"), facts([
      ["served", `${count(r.listsServed)} LISTs, ${count(r.gets)} GETs, ${count(r.sent)} events` + (r.lastRead ? `; read ${since(now, r.lastRead)} ago` : "")],
      ["watchers", count(r.watchers) + (r.watchers ? `; the slowest is ${counted(r.lag, "change", "changes")} behind, ${bytes(r.backlogBytes)} kept` : "")],
      ["caught up", r.caughtUp && `${count(r.caughtUp)} from the state`], ["stalled", r.stalled && `${count(r.stalled)} ended because their clients read nothing`]])),
    r.reflector ? reflector(now, r.reflector) : "", look(r))];
}

// A table of rows that open. Rows keep their elements from update to update.
const columns = [["", "name"], ["State", "standing"], ["Objects", "n extra"], ["Memory", "n extra"], ["Heard", "heard extra"], ["Behind", "n extra"], ["Problem", "extra"]];
const rows = new Map(); // by ID: {item, of, row, button, detail, text, list}
const opened = []; // IDs, the newest last
const maxOpened = 20; // the server sends the details of this many
let serial = 0;

function table(parent, id, title, heading, first) {
  let list = by(id);
  if (!list) {
    list = el("tbody", {id});
    parent.append(el("section", {"aria-labelledby": id + "-h"}, el("h2", {id: id + "-h"}, title), heading, el("table", {class: "rows"},
      el("thead", {}, el("tr", {}, columns.map(([text, cls]) => el("th", {scope: "col", class: cls}, text || first)))), list)));
  }
  return list;
}

function cells(now, item) {
  const problems = item.problems || [];
  return [item.standing, count(item.objects), bytes(item.totalBytes), age(now, item.heard), count(item.lag), problems.map(p => p.text).join("; ") || "none"];
}

// In a narrow window, only the columns without the class extra are visible.
const narrow = matchMedia("(max-width: 48rem)");
const width = () => narrow.matches ? columns.filter(([, cls]) => !cls.includes("extra")).length : columns.length;
narrow.addEventListener("change", () => { for (const r of rows.values()) r.detail?.firstChild.setAttribute("colspan", width()); });

// show shows the items of one table, in their order.
function show(list, now, items, details, of) {
  let at = list.firstChild;
  const keep = isSelected(list); // rows do not move while a part of them is selected
  for (const item of items) {
    let r = rows.get(item.id);
    if (!r) {
      const button = el("button", {type: "button", class: "open", "aria-expanded": "false", id: "open-" + ++serial}, item.fullName || item.name);
      const kind = el("span", {class: "quiet"});
      r = {id: item.id, row: el("tr", {}, el("th", {scope: "row", class: "name"}, button, " ", kind), columns.slice(1).map(([, cls], n) => el("td", {class: cls}, n ? "" : el("span", {class: "state"})))), button, kind, list};
      button.addEventListener("click", () => toggle(r));
      rows.set(item.id, r);
      list.insertBefore(r.row, at);
    }
    Object.assign(r, {item, of: of(item), alive: true});
    const text = cells(now, item), is = text.join("\n");
    if (r.text !== is) {
      r.text = is;
      const state = r.row.children[1].firstChild;
      setText(state, text[0]);
      state.className = "state " + (item.problems ? "bad" : item.standing === "healthy" ? "good" : "wait");
      for (const [n, t] of text.slice(1).entries()) if (!setText(r.row.children[n + 2], t)) r.text = "";
      setText(r.kind, item.apiVersion ? `${item.apiVersion} ${item.kind || item.resource}` : item.version || "");
      r.search = (item.id + " " + r.kind.textContent + " " + is).toLowerCase();
      r.hides = undefined;
    }
    if (r.detail) draw(r, now, details);
    if (keep) continue;
    // If the row at this place belongs further down, leave it for its turn.
    if (r.row !== at && at && next(at) === r.row) at = r.row;
    if (r.row === at) at = next(at);
    else { move(list, r.row, at); if (r.detail) move(list, r.detail, at); }
  }
}
// next returns the row after a row and its details.
function next(row) {
  const after = row.nextSibling;
  return after?.classList.contains("detail") ? after.nextSibling : after;
}

function draw(r, now, details) {
  const problems = r.item.problems || [];
  fill(r.detail.firstChild.firstChild, [
    ...problems.map((p, n) => el("div", {class: "problem", "data-key": "problem " + n}, el("p", {}, el("b", {class: "bad"}, p.kind + ": "), p.text), el("p", {}, el("b", {}, "What to do: "), p.hint))),
    ...(r.item.handlers || []).filter(h => h.stack).map((h, n) => el("div", {"data-key": "stack " + n}, el("h3", {}, `Goroutine stack of handler ${h.name}`), el("pre", {}, h.stack.trim().split(/[\t\n]/).map(line => el("span", {class: "frame"}, line))))),
    el("p", {"data-key": "copy"}, el("button", {type: "button", "data-copy": r.item.id}, "Copy everything as text")),
    ...details(now, r.item)]);
}

function toggle(r) {
  if (r.detail) return shut(r);
  const id = "details-" + r.button.id;
  r.detail = el("tr", {class: "detail", id}, el("td", {colspan: width()}, el("div", {role: "group", "aria-label": "details of " + r.item.name})));
  r.row.after(r.detail);
  r.button.setAttribute("aria-expanded", "true");
  r.button.setAttribute("aria-controls", id);
  opened.push(r.item.id);
  if (opened.length > maxOpened) shut(rows.get(opened[0]));
  connect();
}
function shut(r) {
  if (following?.in === r) unfollow();
  r.detail.remove();
  r.detail = null;
  r.button.setAttribute("aria-expanded", "false");
  r.button.removeAttribute("aria-controls");
  opened.splice(opened.indexOf(r.id), 1);
  connect();
}

const sum = (all, f) => all.reduce((n, one) => n + f(one), 0);
const seatsText = seats => `Seats: ${count(sum(seats, s => s.taken))} taken, ${counted(sum(seats, s => s.waiting), "request", "requests")} waiting`;

function proxyHeading(now, p) {
  const watchers = p.watchers || [], seats = (p.seats || []).filter(s => s.taken || s.waiting);
  return [facts([
    ["clients", `${counted(p.connections, "connection", "connections")}, ${counted(p.longRunning, "long-running request", "long-running requests")}, ${bytes(p.watchBytes)}; ${counted(p.forwardedWatches, "watch", "watches")} forwarded`],
    ["upstream", `${counted(p.lists, "list", "lists")}, ${counted(p.watches, "watch", "watches")}, ${bytes(p.receivedBytes)} received; ${counted(p.forwarded, "request", "requests")} forwarded, ${count(p.unanswered)} not answered`],
    ["on demand", p.budgetBytes > 0 && `${bytes(p.budgetUsedBytes)} of ${bytes(p.budgetBytes)}`],
    ["revoked", p.revokedWatches && counted(p.revokedWatches, "watch", "watches")],
  ]), charts(p.series || []), el("details", {"data-key": "forwarded"}, el("summary", {}, `Forwarded requests, and why (${count(p.forwarded)})`),
    el("ul", {}, (p.forwardedFor || []).filter(f => f.count).map(f => el("li", {}, `${count(f.count)}: ${f.name}`)))),
  el("details", {"data-key": "seats"}, el("summary", {}, seatsText(seats)), !seats.length ? el("p", {}, "All seats are free.") : el("table", {},
    el("thead", {}, el("tr", {}, ["For", "Priority level", "Taken", "Waiting"].map((h, n) => el("th", {scope: "col", class: n > 1 && "n"}, h)))),
    el("tbody", {}, seats.map(s => el("tr", {}, el("td", {}, s.of), el("td", {}, s.level), el("td", {class: "n"}, count(s.taken)), el("td", {class: "n"}, count(s.waiting))))))),
  watchers.length ? el("details", {"data-key": "callers"}, el("summary", {}, `Callers that watch (${watchers.length} groups)`), el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "callers that watch"}, el("table", {},
    el("thead", {}, el("tr", {}, ["Watches", "Of", "User", "Client", "Oldest"].map((h, n) => el("th", {scope: "col", class: n ? "" : "n"}, h)))),
    el("tbody", {}, watchers.map(w => el("tr", {}, el("td", {class: "n"}, count(w.count)), el("td", {}, [w.resource, w.namespace && "in " + w.namespace, w.selector].filter(Boolean).join(" ")),
      el("td", {}, w.user), el("td", {}, w.agent), el("td", {}, since(now, w.since))))))), p.watchersMore ? el("p", {class: "quiet"}, `and ${count(p.watchersMore)} other groups`) : "") : ""];
}

// plain writes a value as indented text, for the button that copies.
function plain(value, indent = "") {
  if (Array.isArray(value) && value.every(v => typeof v !== "object")) return " " + value.join(" ") + "\n";
  if (typeof value === "string" && value.includes("\n")) return " |\n" + value.trimEnd().split("\n").map(l => indent + l + "\n").join("");
  if (typeof value !== "object" || value === null) return ` ${value}\n`;
  return "\n" + Object.entries(value).map(([k, v]) => `${indent}${Array.isArray(value) ? "-" : k + ":"}${plain(v, indent + "  ")}`).join("");
}
async function copy(id, button) {
  const item = rows.get(id).item, text = `${item.name}: ${item.standing}` + plain({time: latest.time, process: latest.process, ...item}).replace(/^\n?/, "\n");
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not on a secure origin, or not allowed
    const area = el("textarea", {"aria-label": "text to copy"});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  by("announce").textContent = `copied ${counted(text.split("\n").length, "line", "lines")} about ${item.name}`;
}

// The changes of one object, while they are shown.
let following = null;

function unfollow() {
  following?.close();
  following?.panel.replaceChildren();
  following = null;
}

function follow(r, key) {
  unfollow();
  const query = new URLSearchParams({...r.of, key}).toString(), panel = r.detail.querySelector(".history");
  const held = el("span", {role: "status"}, "waiting for the server"), changes = el("ol", {class: "changes", tabindex: "0", "aria-label": "changes of " + key});
  panel.replaceChildren(el("p", {}, el("b", {}, key), " ", held, " ", el("a", {href: "history?" + query}, "JSON"), " ", el("button", {type: "button", "data-close": true}, "Close")), changes);
  r.detail.querySelector("[name=key]").value = key;
  following = Object.assign(new EventSource("history/stream?" + query), {in: r, panel});
  following.onmessage = m => {
    const c = JSON.parse(m.data);
    if ("held" in c) {
      held.textContent = c.held ? `is stored at ${c.resourceVersion}; its changes appear below` : "is not stored; it appears when it is created";
      changes.replaceChildren();
      return;
    }
    if (c.time) held.textContent = c.type === "DELETED" ? "was deleted; it appears when it is created again" : `is stored at ${c.resourceVersion}`;
    const head = `${c.time ? clock(c.time) : "before"} ${c.type} ${c.resourceVersion || ""}` + (c.coalesced ? ", of several changes" : "");
    const lines = c.lines.map(l => el("span", {class: {"+": "good", "-": "bad"}[l[0]]}, l + "\n"));
    if (c.more) lines.push(`and ${count(c.more)} more\n`);
    if (c.type === "MODIFIED" && !c.lines.length) lines.push("nothing but the resourceVersion and managedFields\n");
    changes.prepend(el("li", {}, el("span", {class: "quiet"}, head), el("pre", {}, lines)));
    while (changes.children.length > 200) changes.lastChild.remove();
  };
  following.onerror = () => { if (following?.readyState === EventSource.CLOSED) held.textContent = "cannot be shown: no such informer, or too many histories are open"; };
}

const openRow = e => [...rows.values()].find(r => r.detail?.contains(e));
document.addEventListener("click", e => {
  const b = e.target.closest("button, a");
  if (!b) return;
  if (b.dataset.copy) copy(b.dataset.copy, b);
  if (b.dataset.look) follow(openRow(b), b.dataset.look);
  if ("close" in b.dataset) { const r = following?.in; unfollow(); r?.detail.querySelector("[name=key]").focus(); }
  if (b.dataset.go) {
    e.preventDefault();
    const r = rows.get(b.dataset.go);
    if (!r) return;
    if (!r.detail) toggle(r);
    r.row.scrollIntoView();
    r.button.focus();
  }
});
document.addEventListener("submit", e => {
  e.preventDefault();
  if (e.target.className !== "look") return;
  const key = e.target.elements.key.value.trim();
  if (key) follow(openRow(e.target), key);
});

// filter hides the rows that do not match.
function filter() {
  const words = by("filter").value.toLowerCase().split(/\s+/).filter(Boolean), only = by("only").checked, by_ = words.join(" ") + only;
  let shown = 0;
  for (const r of rows.values()) {
    if (r.hides !== by_) {
      r.hides = by_;
      r.row.hidden = only && !r.item.problems || !words.every(w => r.search.includes(w));
    }
    if (r.detail) r.detail.hidden = r.row.hidden;
    if (!r.row.hidden) shown++;
  }
  setText(by("matches"), words.length || only ? `${count(shown)} of ${count(rows.size)} shown` : "");
}
by("filter").addEventListener("input", filter);
by("only").addEventListener("change", filter);

function process(now, p, links) {
  setText(by("program"), p.program || "Informers");
  const known = [p.host, `pid ${p.pid}`, `up ${since(now, p.started)}`, p.version && "version " + p.version, p.weir && "weir " + p.weir, p.go, p.flags.length && "flags: " + p.flags.join(" ")];
  setText(by("process"), known.filter(Boolean).join(", "));
  fill(by("links"), [["JSON", "informers"], ...(links || []).map(l => [l.name, l.url])].map(([name, href]) => el("li", {}, el("a", {href}, name))));
}

const maxLinks = 10;
function summary(all, program) {
  const bad = all.filter(i => i.problems), text = !all.length ? "No informer is running" : bad.length ? `${count(bad.length)} of ${count(all.length)} need attention` : `All ${count(all.length)} are healthy`;
  setText(by("summary"), text);
  by("summary").className = bad.length ? "bad" : "good";
  document.title = `${text} – ${program}`;
  fill(by("attention"), [...bad.slice(0, maxLinks).map(i => el("li", {"data-key": i.id}, el("a", {href: "#", "data-go": i.id}, i.fullName || i.name), ` ${i.standing}`)),
    ...(bad.length > maxLinks ? [el("li", {}, `and ${count(bad.length - maxLinks)} more`)] : [])]);
}

let stream = null, pending = 0, latest = null;

function update(r) {
  latest = r;
  const s = getSelection();
  ends = s.isCollapsed ? [] : [s.anchorNode, s.focusNode];
  const now = r.time, proxies = r.proxies || [];
  summary([...proxies.flatMap(p => p.resources), ...r.informers], r.process.program);
  if (document.hidden) return; // only the title is visible
  setText(by("at"), "updated " + clock(now));
  process(now, r.process, r.links);
  for (const one of rows.values()) one.alive = false;
  for (const p of proxies) {
    const id = "table of " + p.id, list = table(by("proxies"), id, "Proxy " + p.name, el("div", {class: "heading"}), "Resource");
    fill(list.closest("section").querySelector(".heading"), proxyHeading(now, p));
    show(list, now, p.resources, resourceDetails, x => ({proxy: p.name, resource: x.fullName}));
  }
  if (r.informers.length || by("table")) show(table(by("informers"), "table", "Informers", "", "Informer"), now, r.informers, informerDetails, x => ({informer: x.name}));
  for (const [id, one] of rows) {
    if (one.alive) continue;
    if (one.detail) shut(one);
    one.row.remove();
    rows.delete(id);
  }
  for (const s of document.querySelectorAll("section")) if (!s.querySelector("tbody").children.length && !proxies.some(p => s.contains(by("table of " + p.id)))) s.remove();
  filter();
}

// connect opens a stream of updates, with the details of the rows that are open now.
function connect() {
  clearTimeout(pending);
  pending = setTimeout(() => {
    stream?.close();
    stream = new EventSource("stream?" + new URLSearchParams(opened.map(id => ["open", id])));
    stream.onmessage = m => update(JSON.parse(m.data));
    stream.onerror = () => {
      setText(by("summary"), "Not connected" + (latest ? `; this is the state of ${clock(latest.time)}` : ""));
      by("summary").className = "bad";
      document.title = "Not connected";
      if (stream.readyState === EventSource.CLOSED) { clearTimeout(pending); pending = setTimeout(connect, 5000); }
    };
  });
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && latest) update(latest); });
connect();
