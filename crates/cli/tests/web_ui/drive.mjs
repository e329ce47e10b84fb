// Uses ADK's web UI as a person would, and reports failures.
//
//   node drive.mjs BASE_URL FOLDER PLAYWRIGHT CHROMIUM [without-import]
//
// Screenshots go to FOLDER. The last line is JSON: {steps, errors}, where errors are those of the
// page's console. Exits 1 if a step fails.
import { readFileSync } from "node:fs";

const [base, folder, playwright, chromium, withoutImport] = process.argv.slice(2);
const { chromium: browsers } = await import(`${playwright}/index.mjs`);

const errors = [];
const steps = [];
const browser = await browsers.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
const page = await context.newPage();
page.setDefaultTimeout(20_000);

// Remove what differs between runs and servers.
const plain = (text) =>
  text.replaceAll(base, "").replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").replace(/\d{6,}/g, "N");
page.on("console", (message) => {
  if (message.type() === "error") errors.push(plain(`${message.text()} ${message.location().url}`));
});
page.on("pageerror", (error) => errors.push(plain(`uncaught: ${error}`)));

async function step(name, act) {
  try {
    await act();
    steps.push(name);
    console.log(`ok      ${name}`);
  } catch (error) {
    console.log(`FAILED  ${name}: ${String(error).split("\n").slice(0, 12).join("\n        ")}`);
    await page.screenshot({ path: `${folder}/failed-${name.replaceAll(" ", "-")}.png` });
    console.log(JSON.stringify({ steps, errors }));
    await browser.close();
    process.exit(1);
  }
  await page.screenshot({ path: `${folder}/${steps.length}-${name.replaceAll(" ", "-")}.png` });
}

function assert(holds, message) {
  if (!holds) throw new Error(message);
}

const shown = (text) => page.getByText(text).first().waitFor();
const answered = () =>
  page.waitForResponse((answer) => answer.url().endsWith("/run_sse") && answer.status() === 200);

async function say(text) {
  const answer = answered();
  await page.locator("textarea").fill(text);
  await page.keyboard.press("Enter");
  return (await answer).text();
}

async function openSessions() {
  await page.locator("button.selector-button").nth(1).click();
  await page.getByText("Select a Session", { exact: true }).waitFor();
}

const listed = (name) => page.locator(".session-item").getByText(name).first().waitFor();

await step("load", async () => {
  await page.goto(`${base}/`, { waitUntil: "load" });
  assert(page.url().includes("/dev-ui/"), `/ does not lead to the UI but to ${page.url()}`);
  await page.goto(`${base}/dev-ui/?app=chat`, { waitUntil: "load" });
  await shown("Agent Development Kit");
  await page.locator("textarea").waitFor();
  await page.waitForLoadState("networkidle");
  const consent = page.getByRole("button", { name: "No Thanks" });
  if (await consent.isVisible()) await consent.click();
});

await step("chat", async () => {
  await say("I live in Oslo.");
  await say("Where do I live?");
  await page.getByText('"I live in Oslo."').last().waitFor();
});

await step("tool call", async () => {
  const events = await say("What is the name of my cat?");
  assert(events.includes('"functionResponse"'), `no tool was called: ${events}`);
  await page.getByRole("button", { name: "load_memory" }).last().waitFor();
});

await step("streaming", async () => {
  await page.getByRole("button", { name: "More options" }).click();
  await page.getByRole("menuitem", { name: "Streaming" }).click();
  await page.keyboard.press("Escape");
  const quoted = page.getByText('"I live in Oslo."');
  const before = await quoted.count();
  const events = await say("Where do I live?");
  const partial = events.split("\n").filter((line) => line.includes('"partial":true'));
  assert(partial.length > 1, `the answer did not come in pieces: ${events}`);
  await quoted.nth(before).waitFor();
  await page.waitForLoadState("networkidle");
  const shownNow = await quoted.count();
  assert(shownNow === before + 1, `the pieces became ${shownNow - before} messages`);
});

await step("event details", async () => {
  await page.getByRole("button", { name: "load_memory" }).first().click();
  await shown("Event 6 of");
  await page.locator("svg text").filter({ hasText: "load_memory" }).first().waitFor();
});

await step("traces", async () => {
  await page.getByText("Traces", { exact: true }).click();
  await page.getByText("INVOCATION ID").nth(3).waitFor();
  const tool = page.getByText("load_memory", { exact: true }).locator("visible=true").last();
  await tool.scrollIntoViewIfNeeded();
  await tool.click();
});

await step("reload", async () => {
  await page.getByRole("radio", { name: "Events" }).click();
  await page.reload({ waitUntil: "load" });
  await shown("What is the name of my cat?");
  await page.getByRole("button", { name: "load_memory" }).first().waitFor();
  await page.waitForLoadState("networkidle");
});

await step("session list", async () => {
  await openSessions();
  await listed("I live in Oslo.");
});

await step("rename", async () => {
  await page.getByRole("button", { name: "Edit" }).first().click();
  const name = page.locator("input:visible").first();
  await name.fill("Oslo and the cat");
  await page.keyboard.press("Enter");
  await shown("Oslo and the cat");
  await page.getByRole("button", { name: "Close session selector" }).click();
  await openSessions();
  await listed("Oslo and the cat");
});

const exported = `${folder}/session.json`;
await step("export", async () => {
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  await (await download).saveAs(exported);
  const { events } = JSON.parse(readFileSync(exported, "utf8"));
  assert(events.length >= 10, `only ${events.length} events were exported`);
});

if (!withoutImport) {
  await step("import", async () => {
    const before = page.url();
    const chooser = page.waitForEvent("filechooser");
    const made = page.waitForResponse(
      (answer) => answer.url().endsWith("/sessions") && answer.request().method() === "POST");
    await page.getByRole("button", { name: "Import" }).click();
    await (await chooser).setFiles(exported);
    const answer = await made;
    assert(answer.status() === 200, `${answer.status()}: ${await answer.text()}`);
    const session = await answer.json();
    const kept = JSON.parse(readFileSync(exported, "utf8")).events;
    assert(session.events.length === kept.length, `${session.events.length} events came back`);
    await page.waitForURL((url) => url.toString() !== before);
    await shown("What is the name of my cat?");
  });
}

await page.waitForLoadState("networkidle");
console.log(JSON.stringify({ steps, errors }));
await browser.close();
