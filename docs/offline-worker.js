// Browsers run no workers in pages that are opened from disk. There, a hidden frame takes the worker's place, so that search
// works without a server and without a network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>worker</title>";
      this.frame = frame;
      this.ready = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.receive(data);
          const script = inside.document.createElement("script");
          script.src = new URL(url, document.baseURI).href;
          script.addEventListener("load", () => resolve(inside));
          inside.document.head.append(script);
        }, { once: true });
      });
      document.documentElement.append(frame);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
