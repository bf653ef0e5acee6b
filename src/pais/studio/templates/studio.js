// Forms work without this script. It saves what is typed at once, and keeps the prediction and the progress up to date.
"use strict";
const $ = (selector) => document.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const STEPS = $("#slider").dataset.steps.split(" ").map(Number);
let saving = Promise.resolve(), predicting = null, timer = 0;
// What was typed and is not yet on its way: the form, the name of the field, and the timer, by both names.
const pending = new Map();
const say = (text) => { $("#saved").textContent = text; };
// Take over the parts of a page that follow from what was typed, except the part that the user is in.
function show(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const part of all("[data-live]")) {
    const other = page.getElementById(part.id);
    // A form that is on its way stays: the browser submits no form that was taken out of the page.
    if (!other || part.querySelector("[data-sent]")) continue;
    if (part.contains(document.activeElement) && part.matches("#column-list, #groups, #targets, #dialect, #ledger, #confirmation")) continue;
    if (part.id === "column-list" ? sameColumns(part, other) : part.querySelector("[data-keep]") && other.querySelector("[data-keep]")) continue;
    if (part.outerHTML !== other.outerHTML) part.replaceWith(document.importNode(other, true));
  }
  all(".columns .problem[id]", page).forEach((note) => {
    document.getElementById(note.id)?.replaceChildren(note.textContent);
  });
  [search, fit].forEach((start) => start());
}
function sameColumns(part, other) {
  const names = (root) => all("tr[data-name]", root).map((row) => row.dataset.name + row.querySelector(".type").textContent).join("\n");
  return names(part) === names(other);
}
function post(form, names) {
  const body = new URLSearchParams({ form: form.elements.form.value });
  for (const name of names) {
    body.append("only", name);
    new FormData(form).getAll(name).forEach((value) => body.append(name, value));
  }
  return fetch("/save", { method: "POST", body, keepalive: body.toString().length < 60000 });
}
// Saves follow each other, so that the last one counts. A page that is left sends what is still pending at once.
function save(form, names) {
  names.forEach((name) => wait(form, name));
  return send();
}
const wait = (form, name) => pending.set(`${form.elements.form.value} ${name}`, { form, name });
function send() {
  clearTimeout(timer);
  saving = saving.then(async () => {
    while (pending.size) {
      const { form } = pending.values().next().value;
      const mine = [...pending].filter(([, one]) => one.form === form);
      mine.forEach(([key]) => pending.delete(key));
      try {
        const answer = await post(form, mine.map(([, one]) => one.name));
        const html = await answer.text();
        if (!answer.ok) throw new Error(html);
        if (!pending.size) { show(html); say("Saved."); predict(); }
      } catch (error) {
        mine.filter(([key]) => !pending.has(key)).forEach(([key, one]) => pending.set(key, one));
        return say("Not saved: the studio does not answer. Start it again, and open its new address.");
      }
    }
  });
  return saving;
}
function later(form, name, milliseconds) {
  wait(form, name);
  clearTimeout(timer);
  timer = setTimeout(send, milliseconds);
}
async function predict() {
  predicting?.abort();
  const mine = predicting = new AbortController();
  $("#prediction").setAttribute("aria-busy", "true");
  try {
    const answer = await fetch("/prediction", { signal: mine.signal });
    if (answer.status === 200) $("#prediction").innerHTML = await answer.text();
  } catch (error) {
    if (error.name !== "AbortError" && !pending.size) say("The studio does not answer.");
  }
  if (mine === predicting) $("#prediction").setAttribute("aria-busy", "false");
}
async function watch() {
  if (!("running" in $("#progress").dataset)) return;
  try {
    const html = await (await fetch("/progress")).text();
    const text = new DOMParser().parseFromString(html, "text/html");
    if (!text.querySelector("progress")) { location.hash = "release"; location.reload(); return; }
    // The button stays, so that no click on it is lost.
    all("#progress .now").forEach((part, place) => part.replaceChildren(...all(".now", text)[place].childNodes));
  } catch (error) { if (!pending.size) say("The studio does not answer. The release goes on."); }
  setTimeout(watch, 500);
}
function slide() {
  const at = Number($("#epsilon").value);
  const nearest = STEPS.reduce((best, step, place) => Math.abs(Math.log(step / at)) < Math.abs(Math.log(STEPS[best] / at)) ? place : best, 0);
  if (at > 0) $("#slider").value = nearest;
  $("#slider").setAttribute("aria-valuetext", `epsilon ${$("#epsilon").value}`);
}
function search() {
  const words = $("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const rows = all("#column-list tr[data-name]");
  for (const row of rows) {
    const used = row.querySelector("input[type=checkbox]").checked;
    row.hidden = !words.every((word) => row.dataset.name.includes(word)) || ($("#used-only").checked && !used);
    shown += !row.hidden;
  }
  const used = rows.filter((row) => row.querySelector("input[type=checkbox]").checked).length;
  $("#found").textContent = `${shown} shown, ${used} in use`;
}
function fit() {
  const frame = $("#report-frame");
  if (!frame) return;
  const grow = () => { frame.style.height = `${(frame.contentDocument?.body?.scrollHeight ?? 600) + 20}px`; };
  frame.addEventListener("load", grow);
  addEventListener("resize", grow);
  grow();
}
function changed(event, milliseconds) {
  const field = event.target;
  const form = field.closest("form[data-save], form[data-keep]");
  if (!form || !field.name) return;
  const [part, ...name] = field.name.split(":");
  if (name.length && part !== "use" && field.value) {
    const tick = form.elements[`use:${name.join(":")}`];
    if (!tick.checked) { tick.checked = true; wait(form, tick.name); }
  }
  if (field.id === "epsilon") slide();
  later(form, field.name, milliseconds);
}
document.addEventListener("input", (event) => {
  if (event.target.id === "search" || event.target.id === "used-only") return search();
  if (event.target.id === "slider") {
    $("#epsilon").value = STEPS[event.target.value];
    slide();
    return later($("#epsilon").form, "epsilon", 60);
  }
  changed(event, 120);
});
document.addEventListener("change", (event) => { if (event.target.id !== "slider") changed(event, 0); });
// Enter in a field saves it, and does not leave the page.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-save]")) { event.preventDefault(); send(); return; }
  if (form.dataset.sent || form.method !== "post") return;
  event.preventDefault();
  form.dataset.sent = "yes";
  all("button", form).forEach((button) => { button.disabled = true; });
  send().then(() => form.submit());
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const rows = () => all("#column-list tr[data-name]:not([hidden])");
  const names = (parts) => rows().flatMap((row) => all("[name]", row).map((field) => field.name)).filter((name) => parts.includes(name.split(":")[0]));
  if (button?.dataset.set) {
    const parts = JSON.parse(button.dataset.set);
    const form = button.form;
    for (const [name, mark] of Object.entries(parts)) {
      const value = { "\t": "tab", " ": "space" }[mark] ?? mark;
      const field = form.elements[name];
      if (![...field.options].some((option) => option.value === value)) field.add(new Option(value, value));
      field.value = value;
    }
    button.blur();
    save(form, Object.keys(parts));
  } else if (button?.id === "many-set") {
    rows().forEach((row) => { row.querySelector("input").checked = true; row.querySelector("select").value = $("#many-kind").value; });
    save($("#columns-form"), names(["use", "kind"]));
  } else if (button?.id === "many-clear") {
    rows().forEach((row) => { row.querySelector("input").checked = false; });
    save($("#columns-form"), names(["use"]));
  }
});
$("#yaml-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) { $("#yaml").value = await file.text(); $("#yaml").focus(); say(`${file.name} is loaded. Press “Take over”.`); }
});
addEventListener("pagehide", () => { pending.forEach(({ form, name }) => post(form, [name])); pending.clear(); });
// What was typed before this script was there.
function differs(field) {
  if (field.matches("select")) return field.value !== ([...field.options].find((one) => one.defaultSelected) ?? field.options[0])?.value;
  return field.checked !== field.defaultChecked || (field.matches("[type=checkbox], [type=radio]") ? false : field.value !== field.defaultValue);
}
all("form[data-save] [name]").filter(differs).forEach((target) => changed({ target }, 0));
// The page of a form that was refused can be reloaded like any other.
if (location.pathname !== "/") history.replaceState(null, "", "/");
[slide, search, fit, predict, watch].forEach((start) => start());
