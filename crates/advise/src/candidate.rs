// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The candidate settings, simple ones first, and their texts.

use crate::question::{Goal, Match, Question};
use std::fmt::Write as _;
use weirgate_units::{Rate, Share};

/// The name of the chosen packets' class.
const CHOSEN: &str = "chosen";

/// The inside host that sends the chosen packets in the lab.
const LAB_ADDRESS: &str = "10.0.0.11";

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its name, which is also its arm's.
    pub(crate) name: &'static str,
    /// Its description, one line.
    pub(crate) about: &'static str,
    /// The class of the chosen packets, as fields of a policy; none if there is one class for
    /// all.
    chosen: Option<String>,
    /// The class of all other packets.
    rest: String,
    /// The fields of a conditioner, without its name and class.
    conditioner: Option<String>,
}

/// First in, first out, with the default length of the thesis.
const LONG: &str = "queue = \"pfifo 50\"\n";
/// The short FIFO of the thesis.
const SHORT: &str = "queue = \"pfifo 10\"\n";
const FLOWS: &str = "queue = \"fq_codel\"\n";

/// The setting without a policy.
pub(crate) const AS_IT_IS: (&str, &str) = ("as-it-is", "no policy: the modem's own queue");

/// Makes a candidate with one class for all.
fn one(name: &'static str, about: &'static str, rest: &str) -> Candidate {
    Candidate {
        name,
        about,
        chosen: None,
        rest: format!("share = \"100%\"\n{rest}"),
        conditioner: None,
    }
}

/// Makes a candidate with a class for the chosen packets, and one for the rest.
fn two(name: &'static str, about: &'static str, chosen: String, rest: String) -> Candidate {
    Candidate {
        name,
        about,
        chosen: Some(chosen),
        rest,
        conditioner: None,
    }
}

/// Returns the class of the rest, if the chosen packets have a rate.
fn left(queue: &str) -> String {
    format!("share = \"98%\"\npriority = 5\n{queue}")
}

impl Question {
    /// Returns the candidate settings.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let mut list = vec![
            one("fifo", "one queue for all, 50 packets", LONG),
            one("flows", "one class, flows in turn: fq_codel", FLOWS),
        ];
        list.extend(match &self.goal {
            Goal::Cap { limit, packet, .. } => self.caps(*limit, *packet),
            Goal::Prefer { leave, .. } => self.preferences(*leave),
            Goal::Voice { calls, .. } => self.for_calls(*calls),
        });
        list
    }

    fn caps(&self, limit: Rate, packet: u16) -> Vec<Candidate> {
        let red = self.red();
        let share = format!("rate = \"{limit}\"\npriority = 5\n");
        let hard = format!("{share}ceiling = \"{limit}\"\n");
        let policed = |priority: u8, name, about| Candidate {
            conditioner: Some(policed(self, limit, packet)),
            ..two(
                name,
                about,
                format!("rate = \"{limit}\"\npriority = {priority}\n{SHORT}"),
                left(FLOWS),
            )
        };
        vec![
            two(
                "weights",
                "C8: guarantees, pfifo 50 beside RED; what is left may be borrowed (CBQ)",
                format!("{share}{LONG}"),
                left(&red),
            ),
            two(
                "ceiling",
                "C8: the limit as a ceiling (TBF), pfifo 50 beside RED",
                format!("{hard}{LONG}"),
                left(&red),
            ),
            two(
                "ceiling-short",
                "C8: the limit as a ceiling (TBF), a short pfifo beside RED",
                format!("{hard}{SHORT}"),
                left(&red),
            ),
            policed(
                5,
                "policed",
                "what is beyond the limit is discarded, not delayed; beside flows in turn",
            ),
            policed(
                0,
                "policed-first",
                "what is beyond the limit is discarded, the rest goes before all else",
            ),
        ]
    }

    fn preferences(&self, leave: Share) -> Vec<Candidate> {
        let red = self.red();
        let token = self.token();
        let others = leave.as_f64() * 100.0;
        let others_part = if others > 0.0 {
            format!("share = \"{others:.4}%\"")
        } else {
            format!("rate = \"{token}\"")
        };
        vec![
            one(
                "hosts",
                "one class, hosts in turn, then flows",
                "fair = \"hosts\"\n",
            ),
            two(
                "weights",
                "C8: four parts to one, pfifo 50 beside RED (CBQ)",
                format!("share = \"80%\"\npriority = 5\n{LONG}"),
                format!("share = \"20%\"\npriority = 5\n{red}"),
            ),
            two(
                "priority",
                "C8: priority queueing: the others get what the department leaves",
                format!("rate = \"{token}\"\npriority = 1\n{LONG}"),
                format!("rate = \"{token}\"\npriority = 5\n{red}"),
            ),
            two(
                "priority-and-share",
                "priority, but the others are guaranteed their part; flows in turn",
                format!("share = \"{:.4}%\"\npriority = 1\n{FLOWS}", 100.0 - others),
                format!("{others_part}\npriority = 5\n{FLOWS}"),
            ),
        ]
    }

    fn for_calls(&self, calls: u16) -> Vec<Candidate> {
        let red = self.red();
        let taken = self.calls(calls).as_bits_per_second();
        // A fifth more than the calls take: their packets do not arrive evenly.
        let rate = Rate::bits_per_second(taken + taken / 5);
        let own = |priority: u8| format!("rate = \"{rate}\"\npriority = {priority}\n{SHORT}");
        vec![
            one("short", "one queue for all, 10 packets", SHORT),
            one("red", "one queue for all with RED", &red),
            two(
                "weights",
                "C8: a short pfifo beside RED, by weight",
                own(5),
                left(&red),
            ),
            two(
                "capped",
                "C8: the same with a ceiling (TBF) at what the calls may take",
                format!("{}ceiling = \"{rate}\"\n", own(5)),
                left(&red),
            ),
            two(
                "first",
                "calls before all else, a short pfifo beside RED",
                own(0),
                left(&red),
            ),
            two(
                "first-flows",
                "calls before all else, beside flows in turn",
                own(0),
                left(FLOWS),
            ),
        ]
    }

    /// Returns the policy of a candidate on the router that was asked about.
    pub(crate) fn policy(&self, candidate: &Candidate) -> String {
        self.policy_text(candidate, [&self.device, &self.lan], &self.chosen)
    }

    /// Returns the same policy for the lab's gateway.
    pub(crate) fn lab_policy(&self, candidate: &Candidate) -> String {
        let chosen = match &self.chosen {
            Match::Address(_) => Match::Address(LAB_ADDRESS.to_owned()),
            other => other.clone(),
        };
        self.policy_text(candidate, ["wan", "lan"], &chosen)
    }

    fn policy_text(
        &self,
        candidate: &Candidate,
        [device, lan]: [&str; 2],
        chosen: &Match,
    ) -> String {
        let (about, rest) = (candidate.about, &candidate.rest);
        let (rate, layer) = (self.line.rate, self.line.layer.name());
        let mut text = format!(
            "# {about}\nversion = 1\n\n[link]\ndevice = \"{device}\"\nlan = \"{lan}\"\n\
             up = \"{rate}\"\nlayer = \"{layer}\"\n"
        );
        if let Some(fields) = &candidate.chosen {
            let _ = write!(text, "\n[[class]]\nname = \"{CHOSEN}\"\n{fields}");
        }
        let _ = write!(text, "\n[[class]]\nname = \"rest\"\ndefault = true\n{rest}");
        if candidate.chosen.is_some() {
            let condition = match chosen {
                Match::Dscp(point) => format!("dscp = \"{point}\""),
                Match::Udp => "protocol = \"udp\"".to_owned(),
                Match::Port(port) => {
                    format!("protocol = [\"tcp\", \"udp\"]\nremote-port = {port}")
                }
                Match::Address(prefix) => format!("local-address = \"{prefix}\""),
            };
            let _ = write!(text, "\n[[rule]]\nclass = \"{CHOSEN}\"\n{condition}\n");
        }
        if let Some(fields) = &candidate.conditioner {
            let _ = write!(
                text,
                "\n[[conditioner]]\nname = \"limit\"\nclass = \"{CHOSEN}\"\n{fields}"
            );
        }
        text
    }

    /// Returns RED with the thesis's thresholds for 10 Mbit/s as times: 12 ms, and three times
    /// that. On slow links, three full packets, and three times that.
    fn red(&self) -> String {
        let bits = self.line.rate.as_bits_per_second();
        let min = (bits * 12 / 8_000).max(3 * self.full());
        format!(
            "queue = {{ kind = \"red\", limit = {}, min = {min}, max = {}, probability = 0.1 }}\n",
            4 * min,
            3 * min
        )
    }

    /// Returns the smallest guarantee, a hundredth of the link: in effect none.
    fn token(&self) -> Rate {
        Rate::bits_per_second((self.line.rate.as_bits_per_second() / 100).max(1000))
    }
}

/// Returns a bucket that limits the chosen packets. Meters count IP bytes, so the bucket gets the
/// limit without the link layer's overhead.
fn policed(question: &Question, limit: Rate, packet: u16) -> String {
    let wire = u64::from(question.line.layer.wire_bytes(u32::from(packet)));
    let bits = u128::from(limit.as_bits_per_second()) * u128::from(packet);
    let rate = u64::try_from(bits / u128::from(wire.max(1))).unwrap_or(u64::MAX);
    let burst = u64::from(packet) * 2;
    format!(
        "meter = \"bucket\"\nrate = \"{}\"\nburst = {burst}\n",
        Rate::bits_per_second(rate)
    )
}
