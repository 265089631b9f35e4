// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `top` while the policy changes.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_policy_is_read_while_it_runs() {
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.toml");
    let write = |up: &str| {
        let text = format!(
            "version = 1\n[link]\ndevice = \"wan\"\nup = \"{up}\"\nlayer = \"ethernet\"\n\
             [[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write("4mbit");
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["top", "--json", "--every", "200ms", "--policy"])
        .arg(&file)
        .stdout(Stdio::piped());
    let mut top = Ending(command.spawn().unwrap());
    let mut lines = BufReader::new(top.0.stdout.take().unwrap()).lines();
    let mut until = |is_it: fn(f64) -> bool| {
        for _ in 0..100 {
            let line = lines.next().expect("it ends at once").unwrap();
            let look: Value = serde_json::from_str(&line).unwrap();
            let objects = look["objects"].as_array().unwrap();
            let mut of_links = objects.iter().filter(|one| one["sort"] == "link");
            let rate = |one: &Value| one["numbers"]["policy_bits_per_second"].as_f64();
            if of_links.any(|one| rate(one).is_some_and(is_it)) {
                return;
            }
        }
        panic!("no such rate");
    };
    until(|rate| (3e6..5e6).contains(&rate));
    write("8mbit");
    until(|rate| (7e6..9e6).contains(&rate));
}
