// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links of a site on the page: the state of each, and its events.

use crate::program::{WEIRGATE, root};
use crate::watch::Watch;
use crate::watch::browser::Browser;
use serde_json::Value;
use std::process::{Child, Stdio};

const LINKS: &str = r#"
version = 1
use = "balance"

[[link]]
name = "fibre"
device = "wan"
gateway = "10.9.0.2"
weight = 3

[[link]]
name = "radio"
device = "lan"
gateway = "10.8.0.77"

[[rule]]
protocol = "udp"
to-port = "5060-5061"
use = ["radio", "fibre"]
"#;

/// The process that controls the links; it is killed when the test ends.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn up(now: &Value) -> Vec<bool> {
    let links = now["links"].as_array().into_iter().flatten();
    links.map(|link| link["up"] == true).collect()
}

/// Returns the page's text about the links, after a check that their table fits the screen.
fn shown(watch: &Watch, width: u32, picture: &str) -> String {
    let mut browser = Browser::open(&watch.namespace, width, 900);
    browser.go(&format!("{}?still#now", watch.address));
    browser.until("document.getElementById('site-links')?.rows.length === 3");
    let fits = "document.documentElement.scrollWidth <= innerWidth && \
                document.getElementById('site-links').scrollWidth <= \
                document.getElementById('site-links').parentElement.clientWidth";
    assert_eq!(browser.value(fits), true, "{width}");
    if let Some(folder) = std::env::var_os("WEIRGATE_PICTURES") {
        let answer = browser.ask("Page.captureScreenshot", &serde_json::json!({}));
        let file = root().join(folder).join(format!("{picture}-{width}.b64"));
        std::fs::write(file, answer["data"].as_str().unwrap()).unwrap();
    }
    let text = browser.value("document.getElementById('site-links').innerText");
    text.as_str().unwrap().to_owned()
}

#[test]
fn the_links_of_a_site_are_on_the_page() {
    let watch = Watch::start(|_| {});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("links.toml");
    std::fs::write(&file, LINKS).unwrap();
    watch.look(|now| now["links"] == serde_json::json!([]));
    let mut command = watch.namespace.command(WEIRGATE);
    command
        .args(["links", "run"])
        .arg(&file)
        .stderr(Stdio::null());
    let _held = Held(command.spawn().unwrap());
    let now = watch.look(|now| up(now) == [true, true]);
    let link = &now["links"][0];
    assert_eq!(
        (&link["name"], &link["device"]),
        (&"fibre".into(), &"wan".into())
    );
    assert_eq!(link["weight"], 3);
    assert_eq!(
        link["rules"][0],
        "udp to-port 5060-5061, if others are down"
    );
    assert!(link["since_s"].as_u64() > Some(1_600_000_000), "{link}");

    watch.namespace.run("ip link set lan down");
    watch.look(|now| up(now) == [true, false]);
    for width in [390, 1280] {
        let text = shown(&watch, width, "links");
        for part in ["fibre (wan)", "up since", "weight 3", "radio (lan)"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            text.contains("its device is gone, off or has no carrier"),
            "{text}"
        );
        // It depends on timing whether anything waits.
        assert!(
            text.contains("kept") || text.contains("nothing waits"),
            "{text}"
        );
        assert!(text.contains("not in use"), "{text}");
    }
    let events: Value = watch.json("api/events");
    let events = events["events"].as_array().unwrap();
    let mut of_links = events.iter().filter(|event| event["kind"] == "link");
    let text = of_links.next().unwrap()["text"].as_str().unwrap();
    let why = "radio (lan) is down: its device is gone, off or has no carrier";
    assert_eq!(text, why);

    // Monitoring systems get the links, too, from the service and from the command.
    let ended = watch.namespace.weirgate("metrics");
    for text in [watch.get("metrics"), ended.out] {
        for line in [
            "weirgate_site_link_up{link=\"fibre\",device=\"wan\"} 1",
            "weirgate_site_link_up{link=\"radio\",device=\"lan\"} 0",
            "weirgate_site_link_weight{link=\"fibre\",device=\"wan\"} 3",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }

    // The command shows the same links as the page.
    let ended = watch.namespace.weirgate("links show --json");
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    let link = &shown["links"][0];
    assert_eq!(link["name"], "fibre");
    assert!(link["sent_bytes"].is_u64(), "{link}");
    let classes = link["classes"].as_array().unwrap();
    let has = |name: &str| classes.iter().any(|class| class["name"] == name);
    assert!(has("urgent"), "{link}");
    assert_eq!(shown["links"][1]["up"], false);
}
