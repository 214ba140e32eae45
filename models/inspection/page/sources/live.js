// The form of the live page: sends a text to the server on this machine and receives its weights.

class LiveForm {
  /** `onResults(results)` gets one result for each model. */
  constructor(form, { texts, most_characters: most }, onResults) {
    this.form = form;
    this.failure = form.querySelector(".failure");
    this.button = form.querySelector("button");
    const names = texts === 2 ? ["First text", "Second text"] : ["Text to predict"];
    this.fields = names.map((name) => element("textarea", { rows: 2, maxLength: most, required: true, placeholder: "Type a sentence" , ariaLabel: name }));
    form.querySelector(".fields").replaceChildren(...this.fields);
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(onResults);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target === this.button) return;
      event.preventDefault();
      form.requestSubmit();
    });
  }

  async send(onResults) {
    this.failure.textContent = "";
    this.button.disabled = true;
    this.button.textContent = "Predicting …";
    let results = null;
    try {
      results = await this.request();
    } catch (error) {
      this.failure.textContent = error instanceof TypeError ? "The server does not answer; is it still running?" : error.message;
    } finally {
      this.button.disabled = false;
      this.button.textContent = "Predict";
    }
    if (results) onResults(results);
  }

  async request() {
    const response = await fetch("attention", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ texts: this.fields.map(({ value }) => value) }),
    });
    const failed = { error: `The server failed (${response.status}); its terminal says why.` };
    const answer = await response.json().catch(() => failed);
    if (!response.ok) throw new Error(answer.error ?? failed.error);
    return answer.results;
  }
}
