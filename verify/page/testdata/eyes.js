// What the test of the page asks it for: run in the page, after the page's own script.

// awaitVerdict has to be called before records are given to the page; then checked is a promise.
var checked;
function awaitVerdict() {
  const status = document.getElementById("status");
  checked = new Promise((done) => {
    const look = () => { if (/^(passed|failed)$/.test(status.className)) done(); };
    new MutationObserver(look).observe(status, { attributes: true });
  });
}

// shown is what is to be read.
function shown() {
  const words = (e) => e.textContent;
  const status = document.getElementById("status");
  const lineOf = (li) => {
    const [mark, spoken, name, detail] = [...li.children].map(words);
    return { state: li.className, mark, spoken, name, detail };
  };
  const recordOf = (one) => ({
    state: one.className, file: words(one.querySelector(".file")), summary: one.querySelector(".summary")?.textContent ?? "",
    words: words(one.querySelector(".sum")), times: [...one.querySelectorAll("dt, dd")].map(words), missing: [...one.querySelectorAll(".missing li")].map(words),
    lines: [...one.querySelectorAll("ul:not(.missing) li")].map(lineOf),
  });
  return { state: status.className, verdict: words(status), records: [...document.querySelectorAll("section")].map(recordOf) };
}

// looks is what is wrong to the eye: what needs scrolling to the side, and text that hardly stands out from what is
// behind it. The contrast is that of WCAG 2.2.
function looks() {
  const channel = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).map((c) => channel(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const color = getComputedStyle(e).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? behind(e.parentElement) : color;
  };
  const contrast = (e) => {
    const [less, more] = [getComputedStyle(e).color, behind(e)].map(luminance).sort((a, b) => a - b);
    return (more + 0.05) / (less + 0.05);
  };
  const isWide = (e) => e.getBoundingClientRect().right > innerWidth || (e.scrollWidth > e.clientWidth && e.clientWidth > 1);
  const hasText = (e) => [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim() !== "");
  const all = [...document.querySelectorAll("html, body *")].filter((e) => e.getClientRects().length > 0);
  const names = (some) => some.map((e) => `${e.localName}.${e.className}: ${e.textContent.slice(0, 20)}`);
  return {
    paper: getComputedStyle(document.body).backgroundColor,
    wide: names(all.filter(isWide)),
    faint: names(all.filter((e) => hasText(e) && contrast(e) < 4.5)),
  };
}

// everyWay asks for something at an address in every way that a page can, and then says whether it could write HTML.
async function everyWay(at) {
  const add = (kind, more) => new Promise((done) => {
    document.body.append(Object.assign(document.createElement(kind), { onload: done, onerror: done }, more));
  }).catch(() => {});
  await fetch(at + "fetch", { mode: "no-cors" }).catch(() => {});
  await add("img", { src: at + "img" });
  await add("script", { src: at + "script" });
  await add("iframe", { src: at + "iframe" });
  await add("link", { rel: "stylesheet", href: at + "style" });
  await add("video", { src: at + "video" });
  navigator.sendBeacon(at + "beacon");
  await import(at + "import").catch(() => {});
  await new Promise((done) => { new WebSocket(at.replace("http", "ws") + "socket").onerror = done; });
  try { document.body.insertAdjacentHTML("beforeend", "<b id=written>"); } catch {}
  return document.getElementById("written") !== null;
}
