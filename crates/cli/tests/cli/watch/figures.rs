// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the page shows of a site with two links, and of figures that are missing. The page gets
//! answers that this test writes, because this machine's kernel may lack the qdiscs.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use crate::watch::Watch;
use crate::watch::browser::Browser;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// A script that answers the page in place of the service. `slow` delays the lists of series, in
/// milliseconds.
const IN_PLACE: &str = r#"
    window.slow = 0;
    const told = TOLD;
    const real = window.fetch;
    const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
    window.fetch = async (path, ...rest) => {
      const name = String(path).split("?")[0];
      const asked = new URLSearchParams(String(path).split("?")[1]);
      if (name === "api/about") {
        const about = await (await real(path, ...rest)).json();
        return new Response(JSON.stringify({ ...about, ...told.about }));
      }
      if (name === "api/now") return new Response(JSON.stringify(told.now));
      if (name === "api/series") {
        await sleep(window.slow);
        return new Response(JSON.stringify({ series: told.series }));
      }
      if (name !== "api/read") return real(path, ...rest);
      const from = Number(asked.get("from"));
      const series = asked.getAll("series").map((one) => [one, {
        kind: "counter",
        points: [0, 1, 2].map((step) => [from + step * 1000, from + (step + 1) * 1000, 1, 1, 1, 1, 1]),
      }]);
      return new Response(JSON.stringify({ series: Object.fromEntries(series), events: [] }));
    };
"#;

/// Starts a service without a policy, which serves the page's files.
fn service() -> Watch {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    let folder = tempfile::tempdir().unwrap();
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["watch", "--listen", "127.0.0.1:0", "--history"])
        .arg(folder.path().join("history"))
        .stderr(Stdio::piped());
    let mut service = command.spawn().unwrap();
    let mut lines = BufReader::new(service.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("it ends at once").unwrap();
        if let Some((_, address)) = line.split_once("the page is at ") {
            break address.to_owned();
        }
    };
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Watch {
        namespace,
        service,
        folder,
        address,
    }
}

fn opened(watch: &Watch, told: &Value, view: &str) -> Browser {
    let mut browser = Browser::open(&watch.namespace, 1280, 900);
    let source = IN_PLACE.replace("TOLD", &told.to_string());
    browser.ask(
        "Page.addScriptToEvaluateOnNewDocument",
        &json!({ "source": source }),
    );
    browser.go(&format!("{}?still{view}", watch.address));
    browser.until("document.getElementById('about')?.textContent !== ''");
    browser
}

fn text(browser: &mut Browser, id: &str) -> String {
    let found = browser.value(&format!("document.getElementById('{id}').innerText"));
    found.as_str().unwrap_or_default().to_owned()
}

fn class(device: &str, name: &str) -> Value {
    json!({
        "sort": "class", "promise": "kept",
        "labels": { "device": device, "direction": "up", "class": name, "handle": "2:10" },
        "numbers": { "sent_bytes": 125_000, "sent_packets": 100 },
    })
}

/// Two links, of which only the first one's classes can be read, and `classes` series of each.
fn two_links(classes: usize) -> Value {
    let names = ["wan", "dsl"];
    let link = |device: &str| {
        json!({
            "sort": "link", "labels": { "device": device, "direction": "up" },
            "numbers": { "policy_bits_per_second": 10_000_000 },
        })
    };
    let of_site = |device: &str| {
        json!({
            "name": device, "device": device, "up": true, "since_s": 1_700_000_000,
            "why": "it answers", "rules": [],
        })
    };
    let metrics = ["class_sent_bytes", "class_promise_broken"];
    let series: Vec<String> = metrics
        .iter()
        .flat_map(|metric| names.map(|device| (metric, device)))
        .flat_map(|(metric, device)| {
            (0..classes).map(move |number| {
                format!(
                    "{metric}{{device=\"{device}\",direction=\"up\",class=\"c{number}\",\
                     handle=\"2:{number}\"}}"
                )
            })
        })
        .collect();
    let host = |host: &str| format!("host_received_bytes{{device=\"lan\",host=\"{host}\"}}");
    let series: Vec<String> = series.into_iter().chain([host("10.8.0.77")]).collect();
    let objects: Vec<Value> = [class("wan", "voice")]
        .into_iter()
        .chain(names.map(link))
        .collect();
    json!({
        "about": {
            "span_ms": [1_700_000_000_000_u64, 1_700_000_600_000_u64],
            "legend": {
                "source": "site.toml", "arriving": [], "inside": [], "classes": [], "rules": [],
                "links": names.map(|name| json!(["up", name, 10_000_000])),
            },
        },
        "now": {
            "time_ms": 1_700_000_600_000_u64, "interval_ms": 1000,
            "objects": objects, "flows": [], "links": names.map(of_site),
        },
        "series": series,
    })
}

#[test]
fn what_is_not_known_is_no_zero_and_links_are_told_apart() {
    let watch = service();
    let mut browser = opened(&watch, &two_links(2), "#now");
    browser.until("document.getElementById('site-links')?.rows.length === 3");
    let links = text(&mut browser, "links");
    for part in [
        "up (wan): 1.00 Mbit/s of 10.0 Mbit/s",
        "up (dsl): – of 10.0 Mbit/s",
    ] {
        assert!(links.contains(part), "{part} in {links}");
    }
    let classes = text(&mut browser, "classes");
    assert!(classes.contains("wan up voice"), "{classes}");
    let rows = "[...document.getElementById('site-links').tBodies[0].rows].map((one) => one.cells[4].innerText)";
    assert_eq!(browser.value(rows), json!(["kept", "not known"]));
    browser.value("location.hash = '#link'");
    browser.until("document.querySelectorAll('#link-graphs figure').length > 0");
    let rates = "[...document.getElementById('rates').tBodies[0].rows].map((one) => one.cells[1].innerText)";
    assert_eq!(browser.value(rates), json!(["1.00 Mbit/s, 10 %", "–, –"]));
    let graphs = text(&mut browser, "link-graphs");
    for part in ["dsl up c1", "all classes wan up", "all classes dsl up"] {
        assert!(graphs.contains(part), "{part} in {graphs}");
    }
    // A drag over a graph of the last minutes shows the chosen time in the history.
    browser.value("location.hash = '#now'");
    browser.until("document.querySelectorAll('#now-graphs figure').length > 0");
    browser.value("document.querySelector('#now-graphs svg').scrollIntoView()");
    let box_of = "document.querySelector('#now-graphs svg').getBoundingClientRect()";
    let bounds = browser.value(&format!("[{box_of}.x, {box_of}.y, {box_of}.width]"));
    let bounds = [0, 1, 2].map(|part| bounds[part].as_f64().unwrap());
    for (kind, part) in [
        ("mousePressed", 0.3),
        ("mouseMoved", 0.5),
        ("mouseReleased", 0.6),
    ] {
        let event = json!({
            "type": kind, "x": bounds[0] + part * bounds[2], "y": bounds[1] + 60.0,
            "button": "left", "buttons": 1, "clickCount": 1,
        });
        browser.ask("Input.dispatchMouseEvent", &event);
    }
    browser.until("location.hash === '#history'");
    browser.until("document.querySelectorAll('#graphs figure').length > 0");
    // The first link of the page leads to the content of this view, not to another view.
    browser.value("document.querySelector('a.skip').focus()");
    browser.press("Enter", 13, "\r");
    browser.until("document.activeElement.id === 'main'");
    assert_eq!(
        browser.value("[location.hash, document.getElementById('view-history').hidden]"),
        json!(["#history", false])
    );
}

#[test]
fn every_class_of_two_links_is_drawn_or_counted() {
    let watch = service();
    let strip = "[...document.querySelectorAll('#graphs figcaption')].map((one) => one.textContent)
        .find((one) => one.startsWith('Promises'))";
    let rate = "document.querySelector('#graphs figure svg').getAttribute('aria-label')";
    for (classes, words, series) in [
        (16, "Promises kept and broken", "Rate by class: 32 series"),
        (
            35,
            "Promises kept and broken, and 6 more are not shown",
            "Rate by class, and 6 more are not shown: 64 series",
        ),
    ] {
        let mut browser = opened(&watch, &two_links(classes), "#history/1");
        browser.until("document.querySelectorAll('#graphs figure').length > 1");
        assert_eq!(browser.value(strip), words);
        let label = browser.value(rate);
        assert!(label.as_str().unwrap().starts_with(series), "{label}");
        let text = text(&mut browser, "graphs");
        assert_eq!(text.contains("all classes"), classes == 16, "{text}");
    }
}

/// Graphs that were asked for before another view was chosen do not appear below that view.
#[test]
fn late_graphs_are_not_drawn() {
    let watch = service();
    let mut browser = opened(&watch, &two_links(2), "#events");
    let figures = "document.querySelectorAll('#host-graphs figure').length";
    browser.value("window.slow = 500");
    browser.value("location.hash = '#hosts/10.8.0.77'");
    browser.until("document.getElementById('host-name').textContent !== ''");
    browser.value("location.hash = '#hosts'");
    browser.until("document.getElementById('host-name').textContent === ''");
    browser.value("new Promise((done) => setTimeout(done, 1500))");
    assert_eq!(text(&mut browser, "host-graphs"), "");
    assert_eq!(browser.value(figures), 0);
    browser.value("location.hash = '#hosts/10.8.0.77'");
    browser.until(&format!("{figures} > 0"));
}
