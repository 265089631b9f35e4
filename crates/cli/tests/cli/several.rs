// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file with the policies of several links.

use crate::program::{root, weirgate};
use std::fs;
use tempfile::TempDir;

/// Returns a shipped policy for the device, with more lines in `[link]`.
fn shipped(name: &str, device: &str, more: &str) -> String {
    let text = fs::read_to_string(root().join("policies").join(name)).unwrap();
    let own = format!("device = \"{device}\"\n{more}");
    assert!(text.contains("device = \"wan\"\n"), "{name}");
    text.replace("device = \"wan\"\n", &own)
}

/// The shipped policies may be used for each of three links, which share their LAN device.
#[test]
fn shipped_policies_are_used_for_several_links() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    for name in ["dormitory", "gamer", "guest", "home", "office", "voip"] {
        let of = |device: &str| shipped(&format!("{name}.toml"), device, "");
        let text = [of("wan0"), of("wan1"), of("wan2")].join("---\n");
        fs::write(path.join("site.toml"), text).unwrap();
        let checked = weirgate(path, &["check", "site.toml"]);
        assert_eq!(checked.status, 0, "{name}: {}", checked.err);
        let place = "downstream on ifb-wan1: ";
        assert!(checked.out.contains(place), "{name}: {}", checked.out);
        let checked = weirgate(path, &["check", "--json", "site.toml"]);
        assert!(checked.out.contains("\"ifb-wan2\""), "{}", checked.out);
    }
    // Alone, the queue stays on the LAN device.
    fs::write(path.join("site.toml"), shipped("home.toml", "wan0", "")).unwrap();
    let checked = weirgate(path, &["check", "site.toml"]);
    assert!(
        checked.out.contains("downstream on lan: "),
        "{}",
        checked.out
    );
}

/// A refusal says the line that mends it.
#[test]
fn a_refusal_of_two_policies_names_the_remedy() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let check = |second: &str, more: &str| {
        let inside = "inbound = \"lan\"\n";
        let text = format!(
            "{}---\n{second}{more}",
            shipped("home.toml", "wan0", inside)
        );
        fs::write(path.join("site.toml"), text).unwrap();
        weirgate(path, &["check", "site.toml"])
    };
    let second = |place: &str| shipped("guest.toml", "wan1", place);
    let place = "`inbound = \"ifb\"` and `ifb = \"ifb-wan1\"` in `[link]` of `wan1`";
    let bits = "`mask = \"0x0000f000\"` in `[marks]` of `wan1`";
    check(&second("inbound = \"lan\"\n"), "").says(2, &[place, bits]);
    // The check of the links finds the same.
    let links = "version = 1\n[[link]]\ndevice = \"wan0\"\n[[link]]\ndevice = \"wan1\"\n";
    fs::write(path.join("links.toml"), links).unwrap();
    let of_links = ["links", "check", "links.toml", "--policy", "site.toml"];
    weirgate(path, &of_links).says(2, &[place, bits]);
    let moved = second("inbound = \"ifb\"\nifb = \"ifb-wan1\"\n");
    check(&moved, "\n[marks]\nmask = \"0x0000f000\"\n").says(0, &[]);
}
