// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a tree of the kernel's qdiscs to a policy. Each band becomes a class: a strict band by
//! its priority, bands that share by guarantees in proportion to their quanta. A tbf becomes the
//! gate, or the ceiling of a class.

use super::mirror::Listed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The engine in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Tree,
    Kit,
}

/// A policy, and the classes that replace the qdisc at each place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub policy: String,
    pub classes: BTreeMap<String, Vec<String>>,
}

/// The place of the device's root qdisc.
pub const ROOT: &str = "root";

/// The rate of the gate without a shaper; no script sends more.
const OPEN: u64 = 10_000_000_000;

/// The address ranges of the priorities in scripts. Rules cannot match `skb->priority`, but each
/// priority belongs to one VLAN of the scripts, with these addresses.
const PRIORITIES: [&str; 3] = ["192.0.2.0/28", "192.0.2.16/28", "192.0.2.32/28"];

/// The maximum number of bands: weirgate has no more priorities.
const BANDS: usize = 8;

/// The class of a tree without bands.
const ALL: &str = "all";

/// A band of a scheduler.
struct Band {
    /// The rate in bit/s; strict bands have next to none.
    rate: u64,
    priority: usize,
    ceiling: Option<u64>,
    queue: String,
}

/// Returns the policy for a device's qdiscs; `None` if it has none.
///
/// # Errors
///
/// Fails with what weirgate cannot express.
pub fn placed(
    listed: &[Listed],
    filters: &str,
    device: &str,
    engine: Engine,
) -> Result<Option<Placed>, String> {
    let Some(root) = listed.iter().find(|one| one.root && one.handle != "0:") else {
        return Ok(None);
    };
    let tree = Tree { listed, engine };
    // The kernel's qdisc then drops every packet, and no script sends any.
    if root.kind == "tbf" && tree.below(root, None).is_err() {
        return Ok(None);
    }
    let mut classes = BTreeMap::new();
    let (rate, inner) = tree.shaped(root)?;
    let mut policy = head(device, rate.unwrap_or(OPEN), engine);
    let names = match inner.kind.as_str() {
        "ets" | "prio" => tree.bands(inner, filters, &mut policy, &mut classes)?,
        _ => {
            let queue = tree.queue(inner)?;
            let _ = write!(
                policy,
                "\n[[class]]\nname = \"{ALL}\"\nshare = \"100%\"\nqueue = {queue}\ndefault = true\n"
            );
            vec![ALL.to_owned()]
        }
    };
    for one in [root, inner] {
        classes.insert(place(one), names.clone());
    }
    Ok(Some(Placed { policy, classes }))
}

/// Returns the place of a qdisc, in tc's words.
fn place(one: &Listed) -> String {
    one.parent.clone().unwrap_or_else(|| ROOT.to_owned())
}

fn head(device: &str, rate: u64, engine: Engine) -> String {
    let engine = match engine {
        Engine::Tree => "htb",
        Engine::Kit => "kit",
    };
    format!(
        r#"version = 1

[link]
device = "{device}"
lan = "veth1"
bridge = true
up = "{rate}bit"
margin = "0%"
layer = {{ overhead = 0, relative-to = "device", framing = "none" }}
mtu = 2048
engine = "{engine}"
"#
    )
}

struct Tree<'a> {
    listed: &'a [Listed],
    engine: Engine,
}

impl<'a> Tree<'a> {
    /// Returns the qdisc below another one, at this band.
    fn below(&self, outer: &Listed, band: Option<usize>) -> Result<&'a Listed, String> {
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let found = self.listed.iter().find(|one| {
            let parent = one
                .parent
                .as_deref()
                .and_then(|place| place.split_once(':'));
            parent.is_some_and(|(major, minor)| {
                outer.handle == format!("{major}:")
                    && band.is_none_or(|band| number(minor) == Some(band + 1))
            })
        });
        found.ok_or_else(|| format!("tc lists nothing below {} {}", outer.kind, outer.handle))
    }

    /// Returns a shaper's rate, and the qdisc below it.
    fn shaped(&self, one: &'a Listed) -> Result<(Option<u64>, &'a Listed), String> {
        if one.kind != "tbf" {
            return Ok((None, one));
        }
        let rate = 8 * whole(&one.options, "rate")?;
        Ok((Some(rate), self.below(one, None)?))
    }

    /// Writes the classes of a scheduler, and the rules that select them; returns the classes'
    /// names.
    fn bands(
        &self,
        scheduler: &'a Listed,
        filters: &str,
        policy: &mut String,
        classes: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<String>, String> {
        let options = &scheduler.options;
        let quanta: Vec<u64> = list(options, "quanta");
        let count = usize::try_from(whole(options, "bands")?).unwrap_or(usize::MAX);
        if count > BANDS {
            return Err(format!("more than {BANDS} bands"));
        }
        let strict = count - quanta.len().min(count);
        let mut chosen: Vec<u64> = list(options, "priomap");
        for (priority, band) in filtered(filters) {
            if let Some(there) = chosen.get_mut(priority) {
                *there = band;
            }
        }
        let rest = chosen.first().copied().unwrap_or_default();
        let mut names = Vec::new();
        for at in 0..count {
            let leaf = self.below(scheduler, Some(at))?;
            let (ceiling, inner) = self.shaped(leaf)?;
            let shares = at.checked_sub(strict).and_then(|at| quanta.get(at));
            let band = Band {
                rate: 1_000 * shares.copied().unwrap_or(1),
                priority: at.min(strict),
                ceiling,
                queue: self.queue(inner)?,
            };
            let name = format!("band{at}");
            write_band(policy, &name, &band, rest == at as u64);
            for one in [leaf, inner] {
                classes.insert(place(one), vec![name.clone()]);
            }
            names.push(name);
        }
        for (addresses, band) in PRIORITIES.into_iter().zip(chosen) {
            let _ = write!(
                policy,
                "\n[[rule]]\nclass = \"band{band}\"\nremote-address = \"{addresses}\"\n"
            );
        }
        Ok(names)
    }

    /// Returns a class's queue, in a policy's words.
    fn queue(&self, one: &Listed) -> Result<String, String> {
        let options = &one.options;
        match one.kind.as_str() {
            "bfifo" | "pfifo" => Ok(format!("\"{} {}\"", one.kind, whole(options, "limit")?)),
            "red" => self.red(options),
            other => Err(format!("weirgate has no {other}")),
        }
    }

    fn red(&self, options: &Value) -> Result<String, String> {
        // The kit's RED drops above the upper threshold, as `harddrop` requests.
        let lacks: &[&str] = match self.engine {
            Engine::Tree => &["nodrop", "harddrop"],
            Engine::Kit => &["nodrop"],
        };
        for &word in lacks {
            if options[word] == Value::Bool(true) {
                return Err(format!("weirgate's red has no `{word}`"));
            }
        }
        for event in ["qevents", "early_drop", "mark"] {
            if !options[event].is_null() {
                return Err("weirgate's red has no `qevent`".to_owned());
            }
        }
        let [limit, least, most] = ["limit", "min", "max"].map(|name| whole(options, name));
        let (limit, least, most) = (limit?, least?, most?);
        let probability = options["probability"].as_f64();
        let probability = probability.ok_or("tc lists no probability")?;
        let ecn = options["ecn"] == Value::Bool(true);
        Ok(match self.engine {
            Engine::Tree => format!(
                "{{ kind = \"red\", limit = {limit}, min = {least}, max = {most}, \
                 probability = {probability}, ecn = {ecn} }}"
            ),
            Engine::Kit => {
                let places = i32::try_from(whole(options, "ewma")?).unwrap_or(0);
                let weight = 0.5_f64.powi(places);
                format!(
                    "{{ kind = \"weir_red\", limit_bytes = {limit}, min_bytes = {least}, \
                     max_bytes = {most}, max_p = {probability}, weight = {weight}, \
                     gentle = \"off\", ecn = {ecn} }}"
                )
            }
        })
    }
}

fn write_band(policy: &mut String, name: &str, band: &Band, default: bool) {
    let _ = write!(
        policy,
        "\n[[class]]\nname = \"{name}\"\nrate = \"{}bit\"\npriority = {}\nqueue = {}\n",
        band.rate, band.priority, band.queue
    );
    if let Some(ceiling) = band.ceiling {
        let _ = writeln!(policy, "ceiling = \"{ceiling}bit\"");
    }
    if default {
        let _ = writeln!(policy, "default = true");
    }
}

fn whole(options: &Value, name: &str) -> Result<u64, String> {
    let value = options[name].as_u64();
    value.ok_or_else(|| format!("tc lists no {name} in {options}"))
}

fn list(options: &Value, name: &str) -> Vec<u64> {
    let values = options[name].as_array().into_iter().flatten();
    values.filter_map(Value::as_u64).collect()
}

/// Returns the bands that filters select by `skb->priority`.
fn filtered(shown: &str) -> Vec<(usize, u64)> {
    let mut band = None;
    let mut found = Vec::new();
    for line in shown.lines() {
        if let Some((_, rest)) = line.split_once(" flowid ") {
            let minor = rest
                .split_whitespace()
                .next()
                .and_then(|id| id.split(':').nth(1));
            band = minor.and_then(|minor| u64::from_str_radix(minor, 16).ok());
        }
        let priority = line
            .split_once("meta(priority eq ")
            .and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
        if let Some((priority, band)) = priority.zip(band) {
            found.push((priority, band.saturating_sub(1)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(kind: &str, handle: &str, parent: Option<&str>, options: Value) -> Listed {
        Listed {
            kind: kind.to_owned(),
            handle: handle.to_owned(),
            parent: parent.map(str::to_owned),
            root: parent.is_none(),
            options,
        }
    }

    fn red(options: Value) -> Vec<Listed> {
        vec![
            one("tbf", "1:", None, json!({"rate": 1_250_000})),
            one("red", "11:", Some("1:1"), options),
        ]
    }

    #[test]
    fn a_shaper_is_the_gate_and_a_band_a_class() {
        let listed = [
            one("tbf", "1:", None, json!({"rate": 125_000_000})),
            one(
                "ets",
                "10:",
                Some("1:"),
                json!({"bands": 3, "quanta": [2500, 1500], "priomap": [0, 1, 2, 2]}),
            ),
            one("pfifo", "0:", Some("10:1"), json!({"limit": 1000})),
            one("pfifo", "0:", Some("10:2"), json!({"limit": 1000})),
            one("tbf", "103:", Some("10:3"), json!({"rate": 1_000})),
            one("bfifo", "0:", Some("103:1"), json!({"limit": 9000})),
        ];
        let filters = "filter x flowid 10:1 \n meta(priority eq 2)\n";
        let placed = placed(&listed, filters, "veth2", Engine::Tree);
        let placed = placed.expect("it can be placed").expect("there is a root");
        assert!(placed.policy.contains("up = \"1000000000bit\""));
        assert!(placed.policy.contains("rate = \"1000bit\"\npriority = 0"));
        assert!(
            placed
                .policy
                .contains("rate = \"2500000bit\"\npriority = 1")
        );
        assert!(
            placed
                .policy
                .contains("queue = \"bfifo 9000\"\nceiling = \"8000bit\"")
        );
        let last = "class = \"band0\"\nremote-address = \"192.0.2.32/28\"\n";
        assert!(placed.policy.ends_with(last));
        assert_eq!(placed.classes["10:3"], ["band2"]);
        assert_eq!(placed.classes[ROOT].len(), 3);
    }

    #[test]
    fn what_the_kit_lacks_is_named() {
        let options = json!({"limit": 9, "min": 2, "max": 3, "ecn": true, "nodrop": true,
            "ewma": 5, "probability": 1.0});
        let refused = placed(&red(options.clone()), "", "veth4", Engine::Kit);
        assert!(refused.is_err_and(|why| why.contains("nodrop")));
        let mut without = options;
        without["nodrop"] = json!(false);
        let placed = placed(&red(without), "", "veth4", Engine::Kit);
        let policy = placed.expect("it can be placed").expect("a root").policy;
        assert!(
            policy.contains("max_bytes = 3, max_p = 1, weight = 0.03125"),
            "{policy}"
        );
    }

    #[test]
    fn nothing_stands_for_no_queue() {
        let none = one("noqueue", "0:", None, Value::Null);
        let empty = one("tbf", "1:", None, json!({"rate": 1}));
        for root in [none, empty] {
            assert_eq!(placed(&[root], "", "veth2", Engine::Tree), Ok(None));
        }
    }
}
