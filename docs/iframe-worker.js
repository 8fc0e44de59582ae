// Search from disk. A browser starts no worker on a page that was opened as a file, so this class runs the script of the
// worker in a hidden frame instead, where `addEventListener` and `postMessage` exist under the same names.
if (location.protocol === "file:") {
  window.Worker = class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((done, failed) => {
        const script = frame.contentDocument.createElement("script");
        script.src = new URL(address, location.href);
        script.onload = done;
        script.onerror = () => failed(new Error(`The script ${script.src} cannot be loaded.`));
        frame.contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
