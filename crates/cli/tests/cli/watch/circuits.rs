// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A provider's circuits on the page. This machine's kernel may lack qdiscs of BPF, so the page
//! gets a stored answer. A test in the lab's kernel compares that answer with a real service's.

use crate::program::root;
use crate::watch::Watch;
use crate::watch::browser::Browser;
use serde_json::json;

const ANSWER: &str = include_str!("../../../../../tests/cli/circuits.json");

/// A script that answers the page's requests for circuits and records them. Each answer is one
/// sample later than the one before.
const IN_PLACE: &str = r#"
    window.asked = [];
    const real = window.fetch;
    window.fetch = async (path, ...rest) => {
      if (path === "api/now") {
        const now = await (await real(path, ...rest)).json();
        now.objects.push({ sort: "circuits", labels: { device: "access0", site: "the link" }, numbers: {} });
        return new Response(JSON.stringify(now));
      }
      if (!String(path).startsWith("api/circuits")) return real(path, ...rest);
      const found = structuredClone(ANSWER);
      found.time_ms += 1000 * window.asked.push(path) - (window.back || 0);
      // A circuit with the name of the site.
      if (window.namesake) found.circuits.rows[0].name = "AP_7";
      const query = new URLSearchParams(path.split("?")[1]);
      const [name, part] = [query.get("name"), query.get("q")];
      if (name) {
        found.chosen = [...found.sites.rows, ...found.circuits.rows].filter((one) => one.name === name);
        // One circuit has nothing below it.
        if (!part && found.chosen[0]?.kind !== "site") delete found.sites, delete found.circuits;
      }
      for (const list of part ? [found.sites, found.circuits] : []) {
        list.rows = list.rows.filter((one) => one.name.includes(part));
        list.all = list.rows.length;
        list.more = 0;
      }
      return new Response(JSON.stringify(found));
    };
"#;

fn opened(watch: &Watch, width: u32) -> Browser {
    let mut browser = Browser::open(&watch.namespace, width, 900);
    let source = IN_PLACE.replace("ANSWER", ANSWER);
    browser.ask(
        "Page.addScriptToEvaluateOnNewDocument",
        &json!({ "source": source }),
    );
    browser
}

fn text(browser: &mut Browser, id: &str) -> String {
    let found = browser.value(&format!("document.getElementById('{id}').innerText"));
    found.as_str().unwrap_or_default().to_owned()
}

fn picture(browser: &mut Browser, name: &str) {
    let Some(folder) = std::env::var_os("WEIRGATE_PICTURES") else {
        return;
    };
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.ask(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
        let whole = json!({ "captureBeyondViewport": true });
        let answer = browser.ask("Page.captureScreenshot", &whole);
        let file = root().join(&folder).join(format!("{name}-{scheme}.b64"));
        std::fs::write(file, answer["data"].as_str().unwrap()).unwrap();
    }
}

/// Tests that nothing is wider than the screen.
const FITS: &str = "document.documentElement.scrollWidth <= innerWidth";

#[test]
fn circuits_are_on_the_page() {
    let watch = Watch::start(|_| {});
    for width in [390, 1280] {
        let mut browser = opened(&watch, width);
        browser.go(&format!("{}?still#circuits", watch.address));
        browser.until("document.getElementById('circuits-rows')?.rows.length === 3");
        browser.until("!document.getElementById('to-circuits').hidden");
        let sites = text(&mut browser, "sites-rows");
        let circuits = text(&mut browser, "circuits-rows");
        for part in ["AP_7", "99.0 Mbit/s", "50 %", "6.3 ms"] {
            assert!(sites.contains(part), "{part} in {sites}");
        }
        // Markup in a name is shown as text.
        for part in ["1042 <b>&\"", "1041", "99 %", "12.5 ms"] {
            assert!(circuits.contains(part), "{part} in {circuits}");
        }
        assert_eq!(
            browser.value("document.querySelectorAll('main b').length"),
            0
        );
        let about = text(&mut browser, "circuits-about");
        assert!(
            about.contains("by 1 queue: 52 circuits, 1 site."),
            "{about}"
        );
        let more = text(&mut browser, "circuits-rows-more");
        assert!(more.contains("1 to 2 of 52 circuits"), "{more}");
        assert_eq!(browser.value(FITS), true, "{width}");
        picture(&mut browser, &format!("circuits-{width}"));
        // Open a later page of rows.
        browser.value("document.querySelector('#circuits-rows-more button:last-child').click()");
        browser.until("asked.at(-1).includes('from=50')");

        // Typed text is searched for; Tab and Enter choose one circuit.
        browser.value("document.getElementById('circuits-search').focus()");
        browser.ask("Input.insertText", &json!({ "text": "104&x=1" }));
        browser.until("asked.at(-1).includes('q=104%26x%3D1')");
        browser.until(
            "document.getElementById('circuits-found').textContent === 'Nothing has it in its name or keys.'",
        );
        browser.value("document.getElementById('circuits-search').select()");
        browser.ask("Input.insertText", &json!({ "text": "1042" }));
        browser.until("document.getElementById('circuits-rows').rows.length === 2");
        assert_eq!(browser.value("asked.at(-1).includes('from=')"), false);
        for _ in 0..20 {
            browser.press("Tab", 9, "");
            if browser.value("document.activeElement.textContent.startsWith('1042')") == true {
                break;
            }
        }
        browser.press("Enter", 13, "\r");
        browser.until("location.hash === '#circuits/access0/1042%20%3Cb%3E%26%22/circuit'");
        browser
            .until("document.getElementById('circuit-name').textContent === 'Circuit 1042 <b>&\"'");
        assert_eq!(browser.value("document.activeElement.id"), "circuit-name");
        let circuit = text(&mut browser, "circuit");
        for part in [
            "99.0 Mbit/s",
            "5.00 Mbit/s",
            "3, 41",
            "1, 7",
            "104 (156 kB)",
            "AP_7",
        ] {
            assert!(circuit.contains(part), "{part} in {circuit}");
        }
        assert_eq!(browser.value(FITS), true, "{width}");
    }
}

#[test]
fn a_circuit_is_followed() {
    let watch = Watch::start(|_| {});
    let mut browser = opened(&watch, 390);
    // Open a bookmark; samples arrive as the service sends them.
    browser.go(&format!("{}#circuits/access0/1041", watch.address));
    browser.until("document.querySelectorAll('#circuit-graphs figure').length === 3");
    let graph =
        browser.value("document.querySelector('#circuit-graphs svg').getAttribute('aria-label')");
    let graph = graph.as_str().unwrap();
    assert!(
        graph.starts_with("Rate, since this page looks: 2 series"),
        "{graph}"
    );
    browser.until("asked.length > 10");
    let points = "document.querySelector('#circuit-graphs path.now').getAttribute('d').length";
    let before = browser.value(points).as_f64().unwrap();
    browser.until("asked.length > 15");
    assert!(browser.value(points).as_f64().unwrap() > before);
    picture(&mut browser, "circuit-390");
    // The clock is set back by an hour, so graphs begin anew.
    browser.value("window.back = 3600e3");
    let time = "document.querySelector('#circuit-graphs path.now')?.getAttribute('d').length";
    browser.until(&format!("{time} < {before}"));
    let small = browser.value(time).as_f64().unwrap();
    browser.until(&format!("{time} > {small}"));
    // A circuit can have the name of a site.
    browser.value("window.namesake = true; location.hash = '#circuits/access0/AP_7/circuit'");
    browser.until("document.getElementById('circuit-name').textContent === 'Circuit AP_7'");
    assert_eq!(
        browser.value("document.getElementById('circuits-rows').hidden"),
        true
    );
    browser.value("location.hash = '#circuits/access0/AP_7/site'");
    browser.until("document.getElementById('circuit-name').textContent === 'Site AP_7'");
    browser.value("window.namesake = false");
    // A site shows its circuits and its history.
    browser.value("location.hash = '#circuits/access0/AP_7'");
    browser.until("document.getElementById('circuit-name').textContent === 'Site AP_7'");
    browser.until("!document.getElementById('site-history-name').hidden");
    browser.until("document.getElementById('circuits-rows').rows.length === 3");
    // For a circuit that does not exist, the page says so.
    browser.value("location.hash = '#circuits/access0/%zz'");
    browser.until("document.getElementById('circuit').hidden");
    browser.value("location.hash = '#circuits/access0/nobody'");
    browser.until("document.getElementById('circuit-name').textContent.startsWith('No circuit')");
}

#[test]
fn a_page_without_circuits_has_no_view_of_them() {
    let watch = Watch::start(|_| {});
    let mut browser = Browser::open(&watch.namespace, 1280, 900);
    browser.go(&format!("{}?still#circuits", watch.address));
    browser
        .until("document.getElementById('nocircuits')?.textContent === 'No device has circuits.'");
    assert_eq!(
        browser.value("document.getElementById('to-circuits').hidden"),
        true
    );
    assert_eq!(
        browser.value("document.getElementById('circuits-form').hidden"),
        true
    );
}
