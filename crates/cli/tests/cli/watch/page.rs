// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page in a real browser: its speed, its keys, its display while samples arrive, and its
//! display after the clock was set back.

use crate::watch::browser::Browser;
use crate::watch::kollegiegaarden::{POLICY, nine_months};
use crate::watch::{Watch, class};
use serde_json::json;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weirgate_history::Kind;
use weirgate_watch::FileStorage;

/// The number of attempts of a timing, of which the best counts: other load makes everything
/// slower, never faster.
pub const TRIES: u32 = 5;

/// The time at which the first numbers were shown, in milliseconds since the page was requested.
const SHOWN: &str = "new Promise((done) => { const look = () =>
    document.querySelector('#classes tbody tr') ? done(performance.now())
    : requestAnimationFrame(look); look(); })";

#[test]
fn the_page_is_light_and_comes_at_once() {
    let watch = Watch::start(|_| {});
    watch.look(|now| class(now, "urgent").is_some());
    let mut browser = Browser::open(&watch.namespace, 1280, 900);
    // Every load is like a first visit.
    browser.ask("Network.enable", &json!({}));
    browser.ask(
        "Network.setCacheDisabled",
        &json!({ "cacheDisabled": true }),
    );
    let mut best = f64::INFINITY;
    let mut bytes = 0.0;
    for _ in 0..TRIES {
        browser.go(&watch.address);
        browser.until("document.readyState === 'complete'");
        best = best.min(browser.value(SHOWN).as_f64().unwrap());
        let sum = browser.value(
            "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
             .reduce((all, one) => all + one.transferSize, 0)",
        );
        bytes = sum.as_f64().unwrap();
    }
    println!("the page: {bytes} bytes, numbers stand there after {best:.0} ms");
    assert!((10_000.0..300_000.0).contains(&bytes), "{bytes}");
    assert!(best < 1000.0, "{best} ms");
}

/// Clicks a button that chooses a range. Returns the milliseconds until all its graphs are drawn,
/// and their number.
pub fn shown(browser: &mut Browser, button: &str) -> (f64, f64) {
    let found = browser.value(&format!(
        "(async () => {{
            const place = document.getElementById('graphs');
            const before = place.dataset.ready, begin = performance.now();
            document.querySelector('{button}').click();
            while (place.dataset.ready === before) await new Promise(requestAnimationFrame);
            return [performance.now() - begin, place.querySelectorAll('figure').length];
        }})()"
    ));
    (found[0].as_f64().unwrap(), found[1].as_f64().unwrap())
}

#[test]
fn nine_months_open_as_fast_as_twelve_hours() {
    let watch = Watch::under(POLICY, nine_months);
    let mut browser = Browser::open(&watch.namespace, 1280, 1400);
    browser.go(&format!("{}#history/1", watch.address));
    browser.until("document.querySelectorAll('#graphs figure').length > 0");
    as_fast("24 series", &watch, &mut browser);
}

/// Checks that nine months and a year take at most half as much work again as twelve hours, of
/// service and page together. Each graph must be drawn in less than a fifth of a second. Work is
/// processor time, because other load of the machine delays everything.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
pub fn as_fast(what: &str, watch: &Watch, browser: &mut Browser) {
    const BUTTONS: [&str; 3] = ["#twelve", "#nine", "[data-hours=\"8784\"]"];
    let domain = json!({ "timeDomain": "threadTicks" });
    browser.ask("Performance.enable", &domain);
    let measured = BUTTONS.map(|button| {
        let before = (watch.worked_ms(), browser.worked_ms());
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            let (ms, graphs) = shown(browser, button);
            assert!(graphs >= 5.0, "{graphs}");
            assert!(ms < 200.0 * graphs, "{ms} ms for {graphs}");
            best = best.min(ms);
        }
        let each = |now: f64, before: f64| (now - before) / f64::from(TRIES);
        let service = each(watch.worked_ms(), before.0);
        let page = each(browser.worked_ms(), before.1);
        println!("{what}, {button}: service {service:.0}, page {page:.0} ms of work; {best:.0} ms");
        assert!(page > 1.0, "nothing was drawn");
        service + page
    });
    for ms in measured {
        let twelve = measured[0];
        assert!(ms <= 1.5 * twelve, "{ms} ms, and {twelve} for twelve hours");
    }
}

/// A drag over a graph selects a range, and a day is compared with the one before. The history
/// repeats every day, so both lines must coincide.
#[test]
fn a_time_is_dragged_out_and_compared_with_the_day_before() {
    let watch = Watch::under(POLICY, nine_months);
    let mut browser = Browser::open(&watch.namespace, 1280, 1400);
    browser.go(&format!("{}#history/24", watch.address));
    let ready = "document.getElementById('graphs').dataset.ready";
    browser.until("document.querySelectorAll('#graphs figure').length > 0");
    let before = browser.value(ready);
    browser.value(
        "(() => { const choice = document.getElementById('compare');
           choice.value = '24'; choice.dispatchEvent(new Event('change')); })()",
    );
    browser.until(&format!("{ready} !== {before}"));
    let apart = browser.value(
        "(() => {
           const points = (path) => [...path.getAttribute('d').matchAll(/[ML]([\\d.]+) ([\\d.]+)/g)]
             .map((found) => [Number(found[1]), Number(found[2])]);
           const figure = [...document.querySelectorAll('#graphs figure')]
             .find((one) => one.querySelector('figcaption').textContent === 'Wait by class, measured');
           return [...figure.querySelectorAll('path.before')].map((path) => {
             const old = points(path), now = points(path.nextSibling);
             const pairs = old.map(([x, y]) => [y, now.find((one) => Math.abs(one[0] - x) < 0.6)])
               .filter(([, one]) => one);
             const sum = pairs.reduce((all, [y, one]) => all + Math.abs(y - one[1]), 0);
             return [pairs.length, sum / pairs.length];
           }).filter(([count]) => count);
         })()",
    );
    println!("points and how far apart they are: {apart}");
    let apart = apart.as_array().unwrap();
    assert!(apart.len() >= 4, "{apart:?}");
    for line in apart {
        assert!(line[0].as_f64() > Some(400.0), "{apart:?}");
        assert!(line[1].as_f64() < Some(1.0), "{apart:?}");
    }
    // Drag from 0.3 to 0.6 of the drawing's width.
    let before = browser.value(ready);
    let box_of = "document.querySelector('#graphs figure svg').getBoundingClientRect()";
    let bounds = browser.value(&format!("[{box_of}.x, {box_of}.y, {box_of}.width]"));
    let bounds = [0, 1, 2].map(|part| bounds[part].as_f64().unwrap());
    for (kind, part) in [
        ("mousePressed", 0.3),
        ("mouseMoved", 0.5),
        ("mouseMoved", 0.6),
        ("mouseReleased", 0.6),
    ] {
        let event = json!({
            "type": kind, "x": bounds[0] + part * bounds[2], "y": bounds[1] + 60.0,
            "button": "left", "buttons": 1, "clickCount": 1,
        });
        browser.ask("Input.dispatchMouseEvent", &event);
    }
    browser.until(&format!("{ready} !== {before}"));
    let hours = browser.value(
        "(() => { const [from, to] = document.getElementById('span').textContent.split(' to ');
           return (Date.parse(to) - Date.parse(from)) / 3600e3; })()",
    );
    // Of the drawing's 640 units, 560 show the day.
    let wanted = 24.0 * 0.3 * 640.0 / 560.0;
    let hours = hours.as_f64().unwrap();
    assert!((hours / wanted - 1.0).abs() < 0.02, "{hours} of {wanted}");
}

/// Writes an hour of a class that no longer exists, with times up to an hour in the future.
fn an_hour_ahead(path: &Path) {
    let mut history = FileStorage::open(path, 8_000_000).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let name = "class_sent_bytes{device=\"wan\",direction=\"up\",class=\"ghost\",handle=\"2:99\"}";
    for second in 1..=3600 {
        let time = now.as_millis() as i64 + second * 1000;
        history
            .append(time, 1000, [(name, Kind::Counter, 1000)])
            .unwrap();
    }
    history.commit().unwrap();
}

#[test]
fn a_clock_that_was_ahead_hides_nothing() {
    let watch = Watch::start(an_hour_ahead);
    watch.look(|now| class(now, "urgent").is_some());
    let mut browser = Browser::open(&watch.namespace, 1280, 900);
    browser.go(&format!("{}#history/0.25", watch.address));
    browser.until("document.querySelectorAll('#graphs figure').length > 0");
    let text = browser.value("document.getElementById('graphs').innerText");
    let text = text.as_str().unwrap();
    assert!(
        text.contains("up urgent") && !text.contains("ghost"),
        "{text}"
    );
}

#[test]
fn keys_reach_everything_and_stay_where_they_are() {
    let watch = Watch::start(|_| {});
    watch.look(|now| {
        // Packets before the first sample are not seen.
        watch.send("10.8.0.77", 5_000, 1);
        let objects = now["objects"].as_array();
        objects.is_some_and(|all| all.iter().any(|one| one["labels"]["host"] == "10.8.0.77"))
    });
    let mut browser = Browser::open(&watch.namespace, 390, 844);
    browser.go(&format!("{}#hosts", watch.address));
    browser.until("document.querySelectorAll('#hosts-rows tbody a').length > 0");
    let focused = "document.activeElement.getAttribute('href') || document.activeElement.id \
                 || document.activeElement.getAttribute('aria-label')";
    let mut met = Vec::new();
    for _ in 0..30 {
        browser.press("Tab", 9, "");
        let at = browser.value(focused);
        met.push(at.as_str().unwrap_or_default().to_owned());
        if met.last().unwrap() == "#hosts/10.8.0.77" {
            break;
        }
    }
    for part in [
        "#main",
        "#now",
        "#history",
        "#events",
        "Hosts",
        "#hosts/10.8.0.77",
    ] {
        assert!(met.iter().any(|one| one == part), "{part} in {met:?}");
    }
    // Three samples arrive; the focus must stay where it was.
    let at = "document.getElementById('at').textContent";
    for _ in 0..3 {
        let before = browser.value(at);
        browser.until(&format!("{at} !== {before}"));
    }
    assert_eq!(browser.value(focused), "#hosts/10.8.0.77");
    browser.press("Enter", 13, "\r");
    browser.until("document.getElementById('host-name').textContent === 'Host 10.8.0.77'");
    browser.until("document.querySelectorAll('#host-graphs figure').length > 0");
    // The accessibility tree is what a screen reader gets: every element that can be used has a
    // name.
    let tree = browser.ask("Accessibility.getFullAXTree", &json!({}));
    for node in tree["nodes"].as_array().unwrap() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let used = [
            "link", "button", "combobox", "img", "table", "region", "image",
        ];
        if used.contains(&role) && node["ignored"] != true {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            assert!(!name.trim().is_empty(), "{node}");
        }
    }
    // Words stay on one line even in a table with many columns.
    browser.go(&format!("{}#rules", watch.address));
    browser.until("document.querySelectorAll('#rules-rows tbody a').length > 0");
    let tall = browser.value("document.querySelector('#rules-rows tbody tr').offsetHeight");
    assert!(tall.as_f64().unwrap() < 100.0, "{tall}");
    // Nothing is wider than a telephone's screen.
    let wide = browser.value("document.documentElement.scrollWidth");
    assert!(wide.as_f64().unwrap() <= 390.0, "{wide}");
}
