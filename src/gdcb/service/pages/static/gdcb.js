// Adds keys, countdowns, news of the queue and previews. Everything works without it.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  root.classList.add("has-script");

  const say = (words) => { const live = one("#news"); if (live) live.textContent = words; };

  // The clock of the service counts, not that of this machine.
  const ahead = Date.parse(root.dataset.now) - Date.now();
  const now = () => Date.now() + (Number.isFinite(ahead) ? ahead : 0);

  const span = (seconds) => {
    const whole = Math.floor(seconds);
    const minutes = Math.floor(whole / 60), hours = Math.floor(whole / 3600), days = Math.floor(whole / 86400);
    if (minutes < 15) return minutes ? `${minutes} min ${String(whole % 60).padStart(2, "0")} s` : `${whole} s`;
    if (minutes < 60) return `${minutes} min`;
    if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
    return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
  };

  // Deadlines. Said aloud only when five minutes and when one minute are left, on the review screen.
  const told = new Set();
  const countdowns = all("time[data-deadline]");
  const tick = () => {
    for (const time of countdowns) {
      const left = (Date.parse(time.dataset.deadline) - now()) / 1000;
      if (!Number.isFinite(left)) continue;
      const words = left > 0 ? `${span(left)} left` : "deadline passed";
      if (time.textContent !== words) time.textContent = words;
      time.parentElement.classList.toggle("is-soon", left < 900);
      if (!document.body.classList.contains("page-review")) continue;
      for (const [mark, sentence] of [[300, "Five minutes are left."], [60, "One minute is left."], [0, "The deadline has passed."]]) {
        if (left <= mark && left > mark - 30 && !told.has(mark)) { told.add(mark); say(sentence); }
      }
    }
  };
  if (countdowns.length) { tick(); setInterval(tick, 1000); }

  // News of the queue: rows are marked, never moved; the reader chooses when to load again.
  const queue = one("[data-news]");
  const rowOf = (id) => all(".row").find((row) => row.dataset.id === id);
  // What stood in a row when the page was loaded comes back where it is true again.
  const first = new Map();
  const claim = (row, state, words) => {
    const who = one(".who", row);
    const before = row.matches(".is-taken") ? "taken" : row.matches(".is-mine") ? "mine" : "free";
    if (!first.has(row)) first.set(row, [before, [...who.childNodes]]);
    if (state === before && !(words && !who.textContent.includes(words))) return;
    row.classList.toggle("is-taken", state === "taken");
    row.classList.toggle("is-mine", state === "mine");
    const box = one("input[type=checkbox]", row);
    if (box && state === "taken") { box.checked = false; box.disabled = true; }
    const [was, nodes] = first.get(row);
    if (state === was && !words) who.replaceChildren(...nodes);
    else who.textContent = words || (state === "mine" ? "you have it" : "nobody has it now");
  };
  const apply = (news) => {
    queue.dataset.version = news.version;
    const count = one("#waiting-count");
    if (count) count.firstChild.textContent = String(news.waiting);
    let settled = 0;
    for (const gone of news.gone) {
      const row = rowOf(gone.id);
      if (!row || row.matches(".is-gone")) continue;
      settled += 1;
      row.classList.add("is-gone");
      const box = one("input[type=checkbox]", row);
      if (box) { box.checked = false; box.disabled = true; }
      one(".who", row).textContent = gone.words;
    }
    const taken = new Map(news.claims.map((claim) => [claim.id, claim.words]));
    const mine = new Set(news.mine);
    for (const row of all(".row:not(.is-gone)")) {
      const id = row.dataset.id;
      claim(row, taken.has(id) ? "taken" : mine.has(id) ? "mine" : "free", taken.get(id));
    }
    selected();
    fresh += news.new;
    const parts = [];
    if (fresh) parts.push(fresh === 1 ? "1 new decision waits." : `${fresh} new decisions wait.`);
    if (settled) parts.push(settled === 1 ? "1 was settled." : `${settled} were settled.`);
    if (parts.length) tell(parts.join(" "));
  };
  const tell = (words) => {
    const line = one("#queue-news");
    one("span", line).textContent = words;
    line.classList.add("is-shown");
    say(words);
  };
  let fresh = 0, wait = 10000;
  const ask = async () => {
    if (!document.hidden) {
      try {
        const url = new URL(queue.dataset.news, location.href);
        url.search = location.search;
        url.searchParams.set("since", queue.dataset.version);
        const answer = await fetch(url, { headers: { Accept: "application/json" } });
        if (answer.status === 401 || answer.status === 403) {
          tell("You were signed out, or may no longer look. Nothing here is renewed.");
          return;
        }
        if (!answer.ok) throw new Error(String(answer.status));
        apply(await answer.json());
        wait = 10000;
      } catch { wait = Math.min(wait * 2, 120000); }
    }
    setTimeout(ask, wait);
  };
  if (queue && root.dataset.refresh === "on") setTimeout(ask, wait);

  // Selecting: only rows that the same rule held, and no more than the cap.
  const boxes = all(".row input[type=checkbox]");
  const selected = () => {
    const chosen = boxes.filter((box) => box.checked);
    const cap = Number(queue && queue.dataset.cap) || Infinity;
    const rule = chosen.length ? chosen[0].closest(".row").dataset.rule : null;
    for (const box of boxes) {
      const row = box.closest(".row");
      if (row.matches(".is-gone, .is-taken")) continue;
      box.disabled = !box.checked && rule !== null && (row.dataset.rule !== rule || chosen.length >= cap);
    }
    const words = one("[data-selected]");
    if (words) words.textContent = chosen.length ? `${chosen.length} selected.` : "Answer several at once.";
  };
  for (const box of boxes) box.addEventListener("change", selected);
  if (boxes.length) selected();

  // What an edit would do, as it is typed.
  const edit = one("form[data-preview]");
  if (edit) {
    const place = one("#preview");
    const shown = one("button[formnovalidate]", edit);
    const fields = all("[name^='action.']", edit);
    let timer = 0, number = 0;
    const show = (found) => {
      place.replaceChildren();
      if (found.problem) {
        const line = document.createElement("p");
        line.className = "notice problem";
        line.textContent = found.problem;
        place.append(line);
      }
      const list = document.createElement("dl");
      list.className = "lines";
      for (const { name, words } of found.lines) {
        const pair = document.createElement("div");
        const term = document.createElement("dt"), value = document.createElement("dd");
        term.textContent = name;
        value.textContent = words;
        pair.append(term, value);
        list.append(pair);
      }
      place.append(list);
    };
    const look = async () => {
      const mine = ++number;
      try {
        const body = new URLSearchParams(new FormData(edit));
        const answer = await fetch(edit.dataset.preview, { method: "POST", body, headers: { Accept: "application/json" } });
        if (!answer.ok) throw new Error(String(answer.status));
        const found = await answer.json();
        if (mine === number) show(found);
      } catch {
        if (mine === number) show({ problem: "The preview could not be made. The button below tries again.", lines: [] });
      }
    };
    for (const field of fields) {
      field.addEventListener("input", () => {
        clearTimeout(timer);
        number += 1;  // what is on its way is about another number
        place.replaceChildren();
        timer = setTimeout(look, 350);
      });
    }
    if (shown) shown.addEventListener("click", (event) => { event.preventDefault(); look(); });
  }

  // A form is sent once.
  for (const form of all("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
      setTimeout(() => { delete form.dataset.sent; }, 5000);
    });
  }
  for (const field of all("[data-select]")) field.addEventListener("focus", () => field.select());

  // Keys: they move and focus; none of them sends a form.
  if (root.dataset.keys !== "on") return;
  const rows = all(".row");
  const current = () => rows.findIndex((row) => row.contains(document.activeElement));
  const go = (step) => {
    if (rows.length) {
      const i = current();
      const next = i < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(i + step, 0), rows.length - 1);
      one(".open", rows[next]).focus();
      return;
    }
    const link = one(step > 0 ? ".crumbs a[rel=next]" : ".crumbs a[rel=prev]");
    if (link) link.click();
  };
  const answer = (key, id) => {
    const target = one(`[data-key="${key}"]`);
    if (target) {
      target.scrollIntoView({ block: "center" });
      target.focus();
      if (target.select) target.select();
      return;
    }
    const i = current();
    if (i >= 0) location.href = `${one(".open", rows[i]).href}#${id}`;
  };
  const help = () => { const list = one("#keys"); if (list && !list.open) list.showModal(); };
  const commands = {
    j: () => go(1),
    k: () => go(-1),
    a: () => answer("a", "approve"),
    e: () => answer("e", "edit"),
    v: () => answer("v", "veto"),
    x: () => { const i = current(); const box = i >= 0 && one("input[type=checkbox]", rows[i]); if (box && !box.disabled) box.click(); },
    "/": () => { const field = one("#filter"); if (field) { field.focus(); field.select(); } },
    "?": help,
  };
  const types = (target) => target instanceof Element && target.closest("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) return;
    if (types(event.target) || one("dialog[open]")) return;
    const command = Object.hasOwn(commands, event.key) && commands[event.key];
    if (!command) return;
    event.preventDefault();
    command();
  });
  // Coming from the queue with #approve, #edit or #veto: focus that form.
  const letter = { "#approve": "a", "#edit": "e", "#veto": "v" }[location.hash];
  // Not before the browser has gone to the fragment itself, which takes the focus away.
  if (letter) addEventListener("load", () => setTimeout(() => answer(letter, ""), 0));
})();
