// The page: reads its data, shows the view, and synchronizes the address with it.

function openPage() {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.querySelector("h1").textContent = data.title;
  let writing;
  // after a delay: a slider changes the address often, and browsers are slow to do so
  const changed = (state) => {
    clearTimeout(writing);
    writing = setTimeout(() => writeAddress(state), 120);
  };
  const view = new View(document, data, { changed });
  const restore = () => view.restore(readAddress(location.hash, view.panes.length));
  if (data.live) new LiveForm(document.querySelector("form.live"), data.live, (results) => view.add(results));
  addEventListener("hashchange", restore);
  addEventListener("beforeprint", () => view.print(true));
  addEventListener("afterprint", () => view.print(false));
  restore();
}

openPage();
performance.mark("graphattn-ready");
