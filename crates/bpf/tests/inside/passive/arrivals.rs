// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that arrive in unusual ways: at a VLAN device.

use super::passive;
use super::round_trip::download;
use crate::inside::net::{self, Far};
use std::net::{IpAddr, Shutdown};
use std::thread::sleep;
use std::time::Duration;
use weirgate_bpf::{RoundTrips, Survey, SurveyLink};

/// The kernel shows the arrival of a tagged frame with the device below. The programs see it on the
/// VLAN device all the same, with all of its bytes.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_a_vlan_device() {
    let _far = Far::with(
        1,
        &[
            "tc qdisc replace dev far0 root netem delay 20ms rate 10mbit",
            "ip link add link far0 name far0.7 type vlan id 7",
            "ip addr add 10.7.0.2/24 dev far0.7",
            "ip link set far0.7 up",
        ],
    );
    net::run("ip link add link wan0 name wan0.7 type vlan id 7");
    net::run("ip addr add 10.7.0.1/24 dev wan0.7");
    net::run("ip link set wan0.7 up");
    let far: IpAddr = "10.7.0.2".parse().expect("an address");
    let trips = RoundTrips::open().unwrap_or_else(|error| panic!("{error}"));
    let device = net::ifindex("wan0.7");
    trips.watch(device).expect("a map");
    let (passive, _) = passive("wan0.7", true);
    let survey = Survey::open(device, &SurveyLink::NONE).unwrap_or_else(|error| panic!("{error}"));
    let flow = download("10.7.0.2:19");
    sleep(Duration::from_secs(2));
    let heard = trips.take().expect("a map");
    let _ = flow.shutdown(Shutdown::Both);
    println!("{heard:?}");
    assert_eq!(heard.len(), 1, "one end: {heard:?}");
    assert_eq!(heard[0].end, far);
    assert!((20..30).contains(&heard[0].least.as_millis()), "{heard:?}");
    let hosts = passive.hosts().expect("a map");
    let host = hosts.get(&(device, far)).expect("the far host");
    println!("{host:?}");
    let [arrived, left] = survey.directions().expect("a map");
    println!("{:?} arrived, {:?} left", arrived.all, left.all);
    // 10 Mbit/s for two seconds.
    assert!(
        host.sent_bytes > 1_500_000 && host.here_count > 0,
        "{host:?}"
    );
    assert!(arrived.all.bytes > 1_500_000 && left.all.packets > 0);
}
