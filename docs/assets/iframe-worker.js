// Browsers start no worker from a file. So where the site is read from disk, the search runs in a
// hidden frame instead, which speaks to the page by the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== this.inner) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      this.ready = new Promise((resolve) => { this.inner.started = resolve; });
      this.inner.answer = (data) => window.dispatchEvent(
        new MessageEvent("message", { data, source: this.inner }),
      );
      this.inner.load = (source) => new Promise((resolve, reject) => {
        const script = this.inner.document.createElement("script");
        Object.assign(script, { src: source, onload: resolve, onerror: reject });
        this.inner.document.body.appendChild(script);
      });
      const start = () => {
        this.inner.postMessage = this.inner.answer;
        this.inner.importScripts = (...sources) => sources.reduce(
          (before, source) => before.then(() => this.inner.load(source)), Promise.resolve(),
        );
        this.inner.load(url).then(this.inner.started);
      };
      start();
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
