// What a page of the service adds for those who run scripts: copy buttons, keys, local times, names in SQL, a step beside the
// transcript, and what is new of a run that goes on. It requests pages of its own service, and sends nothing.
"use strict";

// What the keys j and k go through: runs, spans, parts of the transcript, pairs of a comparison.
const STOPS =
  ".runs tbody tr, .failures tbody tr, .grid tbody tr, .timeline tbody tr, .turn:not(details:not([open]) .turn), " +
  ".card:not(details:not([open]) .card), .folded > summary, .pairs > li:not(details:not([open]) li)";
const FAILED = ".failed, :has(> .error), :has(> td.bad), :has(> td > .status.bad), :has(> .state > .bad), :has(> td > .warn)";
const OFF = "freezeframe-keys-off";
// How long to wait before a run that goes on is asked for again: at first, and at most, in milliseconds.
const SOON = 1000;
const LATE = 30000;

// Put a button after each element that names a text, or the element whose text is to be copied.
function addCopyButtons(page) {
  for (const place of page.querySelectorAll("[data-copy], [data-copy-from]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy the ${place.dataset.copyName}`);
    button.addEventListener("click", async () => {
      const text = place.dataset.copy ?? document.getElementById(place.dataset.copyFrom).textContent;
      button.textContent = (await copy(text)) ? "Copied" : "Not allowed";
    });
    place.after(button);
  }
}

// Write the times of a page in the reader's time zone; the titles have UTC.
function localise(page) {
  for (const time of page.querySelectorAll("time")) {
    const date = new Date(time.dateTime);
    const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(date);
    const local = `${date.toLocaleString("sv")} ${zone.find((part) => part.type === "timeZoneName").value}`;
    if (time.textContent === time.title) time.textContent = local;
    else time.title = `${local}, ${time.title}`;
  }
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// Say something to people who look and to those who listen.
function say(text) {
  document.getElementById("said").textContent = text;
}

// The row or part that has the focus, or that the address names.
function chosen() {
  return document.activeElement.closest(STOPS) ?? document.querySelector(":target")?.closest(STOPS) ?? null;
}

// Give the focus to the link of the next row or part, forwards or backwards, so that Enter opens it.
function go(stops, step) {
  const links = stops.map((stop) => stop.matches("summary") ? stop : stop.querySelector("a.n, .what a, .name a") ?? stop.querySelector("a"));
  const at = stops.indexOf(chosen());
  const order = at < 0 && step < 0 ? links.length - 1 : at + step;
  for (let next = order; next >= 0 && next < links.length; next += step) {
    if (links[next]) return links[next].focus();
  }
}

// Go to the next failed one, the first after the last; if the page shows none, to the one that its head names.
function goToFailed() {
  const stops = [...document.querySelectorAll(STOPS)];
  const failed = stops.filter((stop) => stop.matches(FAILED));
  if (!failed.length) return document.querySelector(".why a")?.click();
  const at = stops.indexOf(chosen());
  const next = failed.find((stop) => stops.indexOf(stop) > at) ?? failed[0];
  go([next], 1);
}

function turnTab(step) {
  const tabs = [...document.querySelectorAll(".tabs a")];
  tabs[tabs.findIndex((tab) => tab.ariaCurrent) + step]?.click();
}

// Mark a run of the list; the second one that is marked opens the comparison of both.
function mark() {
  const link = chosen()?.querySelector('a[href^="/runs/"]');
  if (!link || !link.closest(".runs")) {
    document.getElementById("facts")?.setAttribute("open", "");
    return document.querySelector("[name=after]")?.focus();
  }
  const id = link.pathname.split("/")[2];
  const before = document.querySelector(".marked");
  if (before === null) {
    link.closest("tr").classList.add("marked");
    return say("Marked. Press c on another run to compare.");
  }
  const other = before.querySelector('a[href^="/runs/"]').pathname.split("/")[2];
  before.classList.remove("marked");
  if (other === id) return say("No longer marked.");
  location.assign(`/diff?before=${other}&after=${id}`);
}

// Choose a run of the list for a set, or take that back.
function pick() {
  const box = chosen()?.querySelector(".pick input");
  if (!box) return;
  box.click();
  const number = document.querySelectorAll(".pick :checked").length;
  say(`${number} chosen. Press a to add to a set.`);
}

// Change the answer of the chosen step; if none is chosen, what the page offers to change.
function change() {
  const step = chosen() && [...chosen().querySelectorAll("a")].find((link) => /\/steps\/\d+$/.test(link.pathname));
  if (step) return location.assign(step.href.replace("/steps/", "/fork?step="));
  keyed("f")?.click();
}

async function copyLink() {
  const part = chosen()?.id;
  const link = part ? new URL(`#${part}`, location.href).href : location.href;
  say((await copy(link)) ? "Link copied" : "The browser did not allow to copy the link");
}

// Open a step beside the transcript instead of on a page of its own, and go from there to its neighbours.
async function openBeside(event) {
  const link = event.target.closest("a.n, a.earlier, .panel a[rel]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !link.closest(".transcript, .panel") || innerWidth < 760) return;
  event.preventDefault();
  try {
    const answer = await fetch(link.href);
    const step = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (!answer.ok || !step) throw answer;
    showPanel(step, link.href);
  } catch {
    location.assign(link.href);
  }
}

function showPanel(step, address) {
  closePanel();
  const panel = document.createElement("aside");
  panel.className = "panel";
  panel.setAttribute("aria-label", "Step");
  for (const link of step.querySelectorAll("a[href^='?']")) link.href = new URL(link.getAttribute("href"), address);
  for (const form of step.querySelectorAll("form[action^='#']")) form.action = new URL(form.getAttribute("action"), address);
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", closePanel);
  const whole = document.createElement("a");
  whole.href = address;
  whole.textContent = "Page of the step";
  step.querySelector(".crumbs").replaceChildren(whole, close);
  panel.append(...step.childNodes);
  addCopyButtons(panel);
  document.body.append(panel);
}

function closePanel() {
  document.querySelector(".panel")?.remove();
}

// Unfold the range that has the step which the address names; some browsers do that by themselves.
function unfold() {
  const target = document.querySelector(":target");
  const fold = target?.closest(".folded");
  if (!fold || fold.open) return;
  fold.open = true;
  target.scrollIntoView();
}

const ACTIONS = {
  j: () => go([...document.querySelectorAll(STOPS)], 1),
  k: () => go([...document.querySelectorAll(STOPS)], -1),
  e: goToFailed,
  "[": () => turnTab(-1),
  "]": () => turnTab(1),
  c: mark,
  v: pick,
  f: change,
  y: copyLink,
};

// The element that a key presses: of the open step, else of the page.
function keyed(key) {
  const name = `[data-key="${CSS.escape(key)}"]`;
  return document.querySelector(`.panel ${name}`) ?? document.querySelector(name);
}

// An element that says `data-key` is pressed by its key: a field gets the focus, all else is clicked.
function press(event) {
  if (event.key === "Enter" && event.ctrlKey && event.target.matches("textarea")) return event.target.form.requestSubmit();
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog[open]");
  if (event.key === "Escape" && typing && !typing.matches("dialog")) return typing.blur();
  if (event.key === "Escape" && !typing) return closePanel();
  if (typing || (localStorage.getItem(OFF) && event.key !== "?")) return;
  const named = keyed(event.key);
  const action = ACTIONS[event.key] ?? (named && (() => (named.matches("input, textarea") ? named.select() : named.click())));
  if (!action) return;
  event.preventDefault();
  action();
}

// Ask for a page that goes on, a run's or the list's, less often while nothing comes, and put in what is new.
async function follow(version, wait) {
  if (!version) return;
  await new Promise((done) => setTimeout(done, wait));
  if (document.hidden) await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
  try {
    const answer = await fetch(location.href, { headers: { "If-None-Match": version } });
    if (answer.status === 200) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const known = new Set([...document.querySelectorAll(STOPS)].map((stop) => stop.id));
      const newest = versionOf(page);
      addCopyButtons(page);
      localise(page);
      renew(document.querySelector("main"), page.querySelector("main"));
      const fresh = [...document.querySelectorAll(STOPS)].filter((stop) => !known.has(stop.id));
      fresh.forEach((stop) => stop.classList.add("fresh"));
      say(fresh.length ? `${fresh.length} new` : "Changed");
      return follow(newest, document.querySelector(".runs") ? 3 * SOON : SOON);
    }
    if (answer.status !== 304) say(`The service answers with status ${answer.status}; trying again`);
  } catch {
    say("The service does not answer; trying again");
  }
  return follow(version, Math.min(wait * 1.5, LATE));
}

// The parts of an element by what makes them the same ones later: their id, else their kind, counted.
function named(parent) {
  const parts = new Map();
  for (const part of parent.children) {
    let name = part.id || `${part.tagName} ${part.className}`;
    while (parts.has(name)) name += "+";
    parts.set(name, part);
  }
  return parts;
}

function versionOf(page) {
  return page.querySelector("[data-live]")?.dataset.live;
}

// Make an element like a newer one, and leave alone what says the same and what somebody has opened or is typing in.
// What stays is never moved: it would lose the focus.
function renew(old, fresh) {
  const [before, now] = [named(old), named(fresh)];
  before.forEach((part, name) => now.has(name) || part.remove());
  let next = old.firstElementChild;
  now.forEach((part, name) => {
    const was = before.get(name);
    if (was !== next || !was) {
      was?.remove();
      return old.insertBefore(part, next);
    }
    next = was.nextElementSibling;
    if (was.isEqualNode(part)) return;
    if (was.matches("section, table, tbody, tr, .gist, #facts, .folded") && was.tagName === part.tagName) return renew(was, part);
    if (!was.matches("details[open], :focus-within, :has(details[open])")) was.replaceWith(part);
  });
}

// Offer tables and columns for the word before the cursor of a question in SQL: Tab takes the first, Escape none of them.
function addCompletion() {
  const field = document.querySelector('[name="q"]');
  const lists = [...document.querySelectorAll("aside .columns")];
  if (!field || !lists.length) return;
  const texts = (found) => [...found].map((code) => code.textContent);
  const tables = new Map(
    lists.map((list) => [list.parentElement.querySelector("summary code").textContent, texts(list.querySelectorAll("code"))]),
  );
  const offers = document.createElement("p");
  offers.className = "offers";
  offers.setAttribute("aria-live", "polite");
  field.after(offers);
  const word = () => /\w*$/.exec(field.value.slice(0, field.selectionStart))[0];
  const take = (name) => {
    field.setRangeText(name, field.selectionStart - word().length, field.selectionStart, "end");
    offers.replaceChildren();
    field.focus();
  };
  field.addEventListener("input", () => {
    const begun = word().toLowerCase();
    const named = [...tables.keys()].filter((name) => new RegExp(`\\b${name}\\b`).test(field.value));
    const columns = (named.length ? named : [...tables.keys()]).flatMap((name) => tables.get(name));
    const isTable = /\b(from|join)\s+\w*$/i.test(field.value.slice(0, field.selectionStart));
    const names = new Set(isTable ? tables.keys() : [...columns, ...tables.keys()]);
    const found = [...names].filter((name) => begun && name.startsWith(begun) && name !== begun).slice(0, 8);
    offers.replaceChildren(
      ...found.map((name) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "copy";
        button.textContent = name;
        button.addEventListener("click", () => take(name));
        return button;
      }),
    );
  });
  field.addEventListener("keydown", (event) => {
    const first = offers.firstElementChild;
    if (!first || !["Tab", "Escape"].includes(event.key) || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Tab") take(first.textContent);
    else offers.replaceChildren();
  });
}

// Let a plot of an answer be read: the arrow keys and the mouse go from place to place, and Shift or dragging selects several.
// The table shows what is selected; Escape shows all of it again.
function addBrush(plot) {
  const rows = [...document.querySelectorAll(".answer tbody tr")];
  const middles = plot.dataset.middles.split(" ").map(Number);
  if (rows.length !== middles.length) return;
  const half = Math.min(...middles.slice(1).map((middle, index) => middle - middles[index])) / 2;
  const band = plot.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
  band.setAttribute("class", "cursor");
  band.setAttribute("height", "160");
  let [from, to] = [-1, -1];
  const select = (first, last) => {
    [from, to] = [first, Math.max(0, Math.min(last, rows.length - 1))];
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    band.setAttribute("x", middles[low] - half);
    band.setAttribute("width", middles[high] - middles[low] + 2 * half);
    rows.forEach((row, at) => (row.hidden = from !== to && (at < low || at > high)));
    const names = [...document.querySelectorAll(".answer th")].slice(1).map((cell) => cell.textContent);
    const cells = [...rows[to].cells].map((cell) => cell.textContent);
    say(from === to ? `${cells[0]}: ${names.map((name, at) => `${name} ${cells[at + 1]}`).join(", ")}` : `${high - low + 1} rows`);
  };
  const nearest = (event) => {
    const box = plot.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * 1000;
    return middles.reduce((best, middle, at) => (Math.abs(middle - x) < Math.abs(middles[best] - x) ? at : best), 0);
  };
  plot.tabIndex = 0;
  plot.addEventListener("pointerdown", (event) => select(nearest(event), nearest(event)));
  plot.addEventListener("pointermove", (event) => event.buttons && from >= 0 && select(from, nearest(event)));
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") {
      rows.forEach((row) => (row.hidden = false));
      band.setAttribute("width", "0");
      return ([from, to] = [-1, -1]);
    }
    if (!step) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(to + step, rows.length - 1));
    select(event.shiftKey && from >= 0 ? from : next, next);
  });
}

function addKeys() {
  const help = document.getElementById("keys");
  const off = help.querySelector("input");
  off.checked = !localStorage.getItem(OFF);
  off.addEventListener("change", () => (off.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
  const opener = document.querySelector('[data-key="?"]');
  opener.hidden = false;
  opener.addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", press);
}

document.addEventListener("DOMContentLoaded", () => {
  addCopyButtons(document);
  localise(document);
  addKeys();
  document.addEventListener("click", openBeside);
  addEventListener("hashchange", unfold);
  unfold();
  addCompletion();
  document.querySelectorAll("svg.plot").forEach(addBrush);
  follow(versionOf(document), SOON);
  const replay = document.querySelector('form:is([action$="/replay"], .edit)');
  replay?.addEventListener("submit", () => say("Replaying offline …"));
});
