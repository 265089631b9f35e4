// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits the rate that a pod receives: parses the configuration file, and states the queue.
//!
//! A node has a pair of veth devices for each pod; the pod receives what the node's end sends.
//! [`parse`] reads the file for that device, and [`device`] returns its desired state. This crate
//! reads no files, and makes no netlink requests.
//!
//! ```
//! use weirgate_pods::{device, is_own, parse};
//!
//! let (pod, problems) = parse("rate = \"40mbit\"\n");
//! assert!(problems.is_empty());
//! let device = device(&pod.expect("it is right"));
//! assert!(is_own(device.root.as_ref().expect("a queue")));
//! ```

use weirgate_document::{OUT_OF_RANGE, Problem, Problems, Reader};
use weirgate_state::{
    Cake, CakeAckFilter, CakeFlowMode, CakeTins, Device, Origin, Qdisc, QdiscKind,
};
use weirgate_units::{Handle, Rate, Span};

/// The handle of a pod's queue, which identifies it. No policy uses it.
const HANDLE: Handle = Handle::new(0x706f, 0);

/// The lowest and the highest rate. For cake, a rate of 0 means unlimited.
const LOWEST: Rate = Rate::bits_per_second(64_000);
const HIGHEST: Rate = Rate::bits_per_second(100_000_000_000);

/// The default round-trip time of cake (tc-cake(8)).
const RTT: Span = Span::from_millis(100);
const SHORTEST: Span = Span::from_micros(100);
const LONGEST: Span = Span::from_secs(10);

/// The configuration of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod {
    /// The rate that it receives, in bytes of frames as the device counts them.
    pub rate: Rate,
    /// The round-trip time that its queue assumes.
    pub rtt: Span,
}

/// Reads a pod's file. Returns a pod only if no problem is an error.
#[must_use]
pub fn parse(source: &str) -> (Option<Pod>, Vec<Problem>) {
    let problems = Problems::default();
    let pod = weirgate_document::parse(source, &problems, |mut root| read(&mut root));
    let pod = pod.filter(|_| !problems.has_errors());
    (pod, problems.into_sorted())
}

fn read(root: &mut Reader<'_, '_>) -> Option<Pod> {
    let hint = "write the rate of what the pod receives, such as `rate = \"40mbit\"`";
    let rate = if root.has("rate") {
        within(root, "rate", (&LOWEST, &HIGHEST))
    } else {
        root.missing("rate", hint)
    };
    let rtt = if root.has("rtt") {
        within(root, "rtt", (&SHORTEST, &LONGEST))
    } else {
        Some(RTT)
    };
    Some(Pod {
        rate: rate?,
        rtt: rtt?,
    })
}

/// Reads a value between two inclusive bounds.
fn within<T>(root: &mut Reader<'_, '_>, key: &'static str, (least, most): (&T, &T)) -> Option<T>
where
    T: std::str::FromStr<Err = weirgate_units::ParseError> + PartialOrd + std::fmt::Display,
{
    let found = root.parsed::<T>(key)?;
    if found.value >= *least && found.value <= *most {
        return Some(found.value);
    }
    let message = format!("`{key}` is {}", found.value);
    let hint = format!("write one from `{least}` to `{most}`");
    root.problems()
        .error(OUT_OF_RANGE, found.span, message, &hint);
    None
}

/// Returns the desired state of the node's end of the pair: one cake, which has the rate, the AQM,
/// and a queue for each flow. It splits GSO packets, because 64 kB at once take 13 ms at 40 Mbit/s.
#[must_use]
pub fn device(pod: &Pod) -> Device {
    let reason = format!("what the pod receives: {}", pod.rate);
    let origin = Origin::new(1, reason);
    let kind = QdiscKind::Cake(Cake {
        bandwidth: Some(pod.rate),
        rtt: pod.rtt,
        // All packets go to one host.
        flow_mode: CakeFlowMode::Triple,
        nat: false,
        ack_filter: CakeAckFilter::No,
        ingress: false,
        split_gso: true,
        memory_limit: 0,
        tins: CakeTins::BestEffort,
        wire: None,
    });
    Device {
        owned_ifb: false,
        offloads: None,
        root: Some(Qdisc {
            handle: HANDLE,
            stab: None,
            kind,
            origin: origin.clone(),
        }),
        origin,
    }
}

/// Returns whether a root qdisc is one of [`device`].
#[must_use]
pub fn is_own(root: &Qdisc) -> bool {
    root.handle == HANDLE && matches!(root.kind, QdiscKind::Cake(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problems of an invalid file, as they are shown.
    fn wrong(text: &str) -> Vec<String> {
        let (pod, problems) = parse(text);
        assert!(pod.is_none(), "{text}");
        let shown = problems.iter().map(|problem| problem.render("veth1", text));
        shown.collect()
    }

    #[test]
    fn a_file_is_a_rate() {
        let pod = parse("rate = \"40mbit\"\nrtt = \"20ms\"\n").0.unwrap();
        assert_eq!(pod.rate, Rate::bits_per_second(40_000_000));
        assert_eq!(pod.rtt, Span::from_millis(20));
        assert_eq!(parse("rate = \"1mbit\"").0.unwrap().rtt, RTT);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, place, what) in [
            ("\nrtt = \"20ms\"\n", "veth1", "rate"),
            ("rate = \"0bit\"\n", "veth1:1", "64kbit"),
            ("rate = \"101gbit\"\n", "veth1:1", "100gbit"),
            ("rate = \"1mbit\"\nrtt = \"1us\"\n", "veth1:2", "100us"),
            ("rate = \"fast\"\n", "veth1:1", "fast"),
            ("rate = \"1mbit\"\nrat = 1\n", "veth1:2", "rate"),
            ("rate = 7\n", "veth1:1", "rate"),
            ("", "veth1", "rate"),
        ] {
            let shown = wrong(text);
            assert_eq!(shown.len(), 1, "{text}: {shown:?}");
            let [shown] = &shown[..] else { continue };
            assert!(
                shown.contains(place) && shown.contains(what),
                "{text}: {shown}"
            );
        }
    }

    #[test]
    fn it_is_known_again_whatever_its_rate() {
        for bits in [64_000, 40_000_000, 100_000_000_000] {
            let pod = Pod {
                rate: Rate::bits_per_second(bits),
                rtt: RTT,
            };
            assert!(is_own(&device(&pod).root.unwrap()));
        }
        let mut other = device(&parse("rate = \"1mbit\"").0.unwrap()).root.unwrap();
        other.handle = Handle::new(1, 0);
        assert!(!is_own(&other));
    }
}
