// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain file's routers and customers as network namespaces with veth
//! devices between them, addresses and routes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::process::Command;

/// Runs a command line that must succeed; what it prints.
#[track_caller]
pub fn run(line: &str) -> String {
    let (status, out, err) = ended(line);
    assert_eq!(status, 0, "{line}: {out}{err}");
    out
}

/// Runs a command line: its status and what it prints.
#[track_caller]
pub fn ended(line: &str) -> (i32, String, String) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// A domain under construction: the file's text, and what is behind it.
#[derive(Debug, Default)]
pub struct Plan {
    text: String,
    /// Routers, in order.
    routers: Vec<String>,
    /// Router, device, router, device.
    links: Vec<[String; 4]>,
    /// Customer, router, device.
    customers: Vec<[String; 3]>,
}

impl Plan {
    pub fn new(classes: &str) -> Self {
        Self {
            text: format!("version = 1\n{classes}"),
            ..Self::default()
        }
    }

    pub fn router(&mut self, name: &str, role: &str) {
        let _ = write!(self.text, "\n[router.{name}]\nrole = \"{role}\"\n");
        self.routers.push(name.to_owned());
    }

    /// A link; each router's device is called as the other router.
    pub fn link(&mut self, one: &str, other: &str, rate: &str) {
        let _ = write!(
            self.text,
            "\n[[link]]\nbetween = [\"{one}\", \"{other}\"]\ndevices = [\"{other}\", \"{one}\"]\n\
             rate = \"{rate}\"\n"
        );
        self.links.push([one, other, other, one].map(str::to_owned));
    }

    /// A customer, whose device at the router is called as he is.
    pub fn customer(&mut self, name: &str, router: &str, rate: &str) {
        let number = self.customers.len();
        let _ = write!(
            self.text,
            "\n[customer.{name}]\nrouter = \"{router}\"\ndevice = \"{name}\"\nrate = \"{rate}\"\n\
             host = \"{name}\"\naddress = \"10.1.{number}.2\"\n"
        );
        self.customers.push([name, router, name].map(str::to_owned));
    }

    pub fn service(&mut self, text: &str) {
        let _ = write!(self.text, "\n[[service]]\n{text}\n");
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Builds all of it.
    pub fn build(&self) {
        run("sysctl -qw net.ipv4.ip_forward=1");
        let customers = self.customers.iter().map(|one| &one[0]);
        for name in self.routers.iter().chain(customers) {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link set lo up"));
        }
        for name in &self.routers {
            run(&format!(
                "ip netns exec {name} sysctl -qw net.ipv4.ip_forward=1"
            ));
        }
        for (number, [one, device, other, back]) in self.links.iter().enumerate() {
            veth([one, device], [other, back]);
            run(&format!(
                "ip -n {one} addr add 10.0.{number}.1/30 dev {device}"
            ));
            run(&format!(
                "ip -n {other} addr add 10.0.{number}.2/30 dev {back}"
            ));
        }
        for (number, [name, router, device]) in self.customers.iter().enumerate() {
            veth([router, device], [name, "eth0"]);
            run(&format!(
                "ip -n {router} addr add 10.1.{number}.1/24 dev {device}"
            ));
            run(&format!(
                "ip -n {name} addr add 10.1.{number}.2/24 dev eth0"
            ));
            run(&format!(
                "ip -n {name} route add default via 10.1.{number}.1"
            ));
        }
        for router in &self.routers {
            let towards = self.towards(router);
            for (number, [_, at, _]) in self.customers.iter().enumerate() {
                if let Some(via) = towards.get(at.as_str()) {
                    run(&format!(
                        "ip -n {router} route add 10.1.{number}.0/24 via {via}"
                    ));
                }
            }
        }
    }

    /// The address of the next router on the shortest way from one to each.
    fn towards(&self, from: &str) -> BTreeMap<&str, String> {
        let mut next: BTreeMap<&str, String> = BTreeMap::new();
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(here) = queue.pop_front() {
            for (number, [one, _, other, _]) in self.links.iter().enumerate() {
                let (there, end) = match here {
                    _ if here == one => (other.as_str(), 2),
                    _ if here == other => (one.as_str(), 1),
                    _ => continue,
                };
                if !seen.insert(there) {
                    continue;
                }
                let first = next.get(here).cloned();
                next.insert(there, first.unwrap_or(format!("10.0.{number}.{end}")));
                queue.push_back(there);
            }
        }
        next
    }
}

fn veth([one, device]: [&str; 2], [other, back]: [&str; 2]) {
    run(&format!(
        "ip link add {device} netns {one} type veth peer name {back} netns {other}"
    ));
    run(&format!("ip -n {one} link set {device} up"));
    run(&format!("ip -n {other} link set {back} up"));
}
