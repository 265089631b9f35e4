// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing as lines of text in the form of iproute2, and back. This is how it is stored, which
//! takes less code than a serialized form of each type.

use super::{LinkRoute, Marking, Routing, RoutingRule};
use crate::{DeviceName, IpVersion};

/// The line before those of the table of marks.
const MARKS: &str = "marks";

impl Routing {
    /// Returns all of it as lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.rules.iter().map(ToString::to_string).collect();
        lines.extend(self.routes.iter().map(ToString::to_string));
        if let Some(marks) = &self.marks {
            lines.push(MARKS.to_owned());
            lines.extend(marks.lines());
        }
        lines
    }

    /// Parses the lines of [`Routing::lines`].
    #[must_use]
    pub fn of_lines(lines: &[String]) -> Option<Self> {
        let mut found = Self::default();
        let end = lines.iter().position(|line| line == MARKS);
        if let Some(end) = end {
            found.marks = Some(Marking::of_lines(&lines[end + 1..])?);
        }
        for line in &lines[..end.unwrap_or(lines.len())] {
            let mut words = line.split(' ');
            let version = match (words.next(), words.next()) {
                (Some("ip"), Some("-4")) => IpVersion::V4,
                (Some("ip"), Some("-6")) => IpVersion::V6,
                _ => return None,
            };
            if words.next()? == "rule" {
                found.rules.insert(rule(version, words)?);
            } else {
                found.routes.insert(route(version, words)?);
            }
        }
        (found.lines() == lines).then_some(found)
    }
}

fn rule<'a>(version: IpVersion, mut words: impl Iterator<Item = &'a str>) -> Option<RoutingRule> {
    let mut rule = RoutingRule {
        priority: 0,
        version,
        mark: None,
        bound_to: None,
        table: 0,
        no_default: false,
    };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "pref" => rule.priority = value.parse().ok()?,
            "fwmark" => {
                let (value, mask) = value.split_once('/')?;
                rule.mark = Some((super::number(value)?, super::number(mask)?));
            }
            "oif" => rule.bound_to = Some(DeviceName::new(value)?),
            "lookup" => rule.table = value.parse().ok()?,
            _ => rule.no_default = true,
        }
    }
    Some(rule)
}

fn route<'a>(version: IpVersion, mut words: impl Iterator<Item = &'a str>) -> Option<LinkRoute> {
    let (mut table, mut device, mut gateway) = (0, None, None);
    // Skip the word `default`.
    words.next();
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "via" => gateway = Some(value.parse().ok()?),
            "dev" => device = DeviceName::new(value),
            _ => table = value.parse().ok()?,
        }
    }
    Some(LinkRoute {
        table,
        version,
        device: device?,
        gateway,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, Selector, Transport};

    /// A choice of each kind: by source, destination, protocol and ports; with one link and with
    /// several.
    fn choices() -> Vec<Choice> {
        let net = |address: &str, length| Some((address.parse().unwrap(), length));
        let transport = |protocol, to_port| Some(Transport { protocol, to_port });
        let one = [(0x100, 1)];
        let choice = |from, to, transport, links: &[(u32, u32)]| Choice {
            of: Selector {
                from,
                to,
                transport,
            },
            links: links.to_vec(),
        };
        let both = [(0x100, 3), (0x200, 1)];
        vec![
            choice(net("10.0.2.0", 24), None, None, &one),
            choice(None, net("203.0.113.0", 24), transport(50, None), &one),
            choice(None, None, transport(6, Some((443, 443))), &both),
            choice(None, None, transport(6, None), &[(0x200, 2)]),
            choice(
                net("fd00::", 8),
                net("2001:db8::", 32),
                transport(17, Some((5_060, 5_061))),
                &both,
            ),
            choice(None, net("::ffff:192.0.2.0", 120), None, &one),
            choice(None, None, None, &[(0x100, 1), (0x200, 1)]),
        ]
    }

    #[test]
    fn lines_say_all_of_it() {
        let device = DeviceName::new("wan0").unwrap();
        let rule =
            |version, priority, mark, bound_to: Option<&DeviceName>, no_default| RoutingRule {
                priority,
                version,
                mark,
                bound_to: bound_to.cloned(),
                table: 7_701,
                no_default,
            };
        let route = |version, gateway: Option<&str>| LinkRoute {
            table: 7_701,
            version,
            device: device.clone(),
            gateway: gateway.map(|text| text.parse().unwrap()),
        };
        let rules = IpVersion::BOTH.into_iter().flat_map(|version| {
            [
                rule(version, 7_700, None, None, true),
                rule(version, 7_710, None, Some(&device), false),
                rule(version, 7_720, Some((0x100, 0xf00)), None, false),
                rule(version, 7_730, None, None, false),
            ]
        });
        let other = DeviceName::new("wan1").unwrap();
        let mut routing = Routing {
            rules: rules.collect(),
            routes: [
                route(IpVersion::V4, Some("192.0.2.1")),
                route(IpVersion::V4, None),
                route(IpVersion::V6, Some("fe80::1")),
                route(IpVersion::V6, None),
            ]
            .into(),
            marks: Some(Marking {
                mask: 0xf00,
                devices: [(device.clone(), 0x100), (other, 0x200)].into(),
                choices: choices(),
            }),
        };
        assert_eq!(Routing::of_lines(&routing.lines()), Some(routing.clone()));
        let mut lines = routing.lines();
        lines[0].push_str(" x");
        assert_eq!(Routing::of_lines(&lines), None);
        // A modified table is observed as one without links.
        routing.marks = Some(Marking::default());
        assert_eq!(Routing::of_lines(&routing.lines()), Some(routing.clone()));
        routing.marks = None;
        assert_eq!(Routing::of_lines(&routing.lines()), Some(routing));
    }
}
