// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of loading and unloading on a device beside its queue.

use super::inside::{done, far_packets, net, number, shown};
use net::Far;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use weirgate_kernel::Kernel;
use weirgate_state::{DeviceName, Offloads};

/// Returns the offloads that merge packets on their way to a device.
fn offloads(name: &str) -> Offloads {
    let name = [DeviceName::new(name).expect("a name")];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let kernel = Kernel::open().expect("a kernel");
        let found = kernel.offloads(&name).await.expect("offloads");
        found[0].expect("a device that tells them")
    })
}

/// Removing a discipline loses the queued packets, and nothing else.
#[test]
#[ignore = "runs in the lab's kernel"]
fn unloading_loses_what_is_queued() {
    let _far = Far::new(1);
    done("load droptail wan0 limit_packets=1000 --rate 1mbit");
    let socket = UdpSocket::bind("10.0.0.1:0").expect("a socket");
    let offer = |count: u32| {
        for _ in 0..count {
            socket.send_to(&[0; 1_000], "10.0.0.2:9").expect("room");
        }
    };
    let before = far_packets(0);
    // As many as the socket's buffer has room for, so that none waits there.
    offer(80);
    thread::sleep(Duration::from_millis(100));
    let last = shown("wan0");
    let queued = number(&last, "statistics", "queued_packets");
    done("unload wan0");
    offer(20);
    thread::sleep(Duration::from_millis(500));
    let sent = far_packets(0) - before;
    println!("{queued} were queued, {sent} of 100 went");
    assert!((40..80).contains(&queued), "{queued} queued");
    assert!(sent + queued >= 100, "{queued} queued, {sent} went");
    // The queued packets were lost: no other queue had room for them.
    assert!(sent + queued < 100 + 30, "{queued} queued, {sent} went");
}

/// A gate counts packets one at a time, so the offloads that merge packets are disabled while it is
/// loaded. Those that were enabled are enabled again afterwards.
#[test]
#[ignore = "runs in the lab's kernel"]
fn nothing_joins_packets_for_a_gate() {
    let _far = Far::new(1);
    net::run("ip link set wan0 gso_max_segs 64");
    let before = offloads("wan0");
    assert!(before.tso && before.gso, "{before:?}");
    done("load droptail wan0");
    assert_eq!(offloads("wan0"), before, "no gate needs it");
    done("load droptail wan0 --replace --rate 4mbit");
    let during = offloads("wan0");
    assert!(!during.tso && !during.gso, "{during:?}");
    assert_eq!((before.segments, during.segments), (Some(64), Some(1)));
    let flow = net::bulk(0);
    thread::sleep(Duration::from_secs(2));
    let last = shown("wan0");
    let (bytes, packets) = (
        number(&last, "statistics", "sent_bytes"),
        number(&last, "statistics", "sent_packets"),
    );
    assert!(packets > 100, "{last}");
    assert!(bytes <= packets * 1_514, "{bytes} bytes in {packets}");
    let _ = flow.shutdown(std::net::Shutdown::Both);
    done("load codel wan0 --replace --rate 2mbit");
    done("unload wan0");
    assert_eq!(offloads("wan0"), before);
    done("load meredt wan0 mark=mark --rate 2mbit");
    let marks = &shown("wan0")["device_marks"];
    assert_eq!(marks["made"], 0, "nothing to mark: {marks}");
    done("change wan0 mark=drop");
    assert!(shown("wan0")["device_marks"].is_null());
    done("change wan0 mark=mark-or-drop");
    assert!(shown("wan0")["device_marks"].is_object());
    done("unload wan0");
    assert_eq!(offloads("wan0"), before);
}
