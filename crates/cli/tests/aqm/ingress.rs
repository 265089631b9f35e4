// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm load --ingress`: the command. The experiment `aqm-ingress` measures its effect on
//! the queue at the far end of a line.

use super::inside::{BROUGHT, done, fails, net, number, objects, settled, shown};
use net::Far;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The provider's end: a line of 10 Mbit/s with a queue of 120 packets.
const LINE: &[&str] = &[
    "ip link set far0 gso_max_segs 1",
    "tc qdisc add dev far0 root handle 1: htb default 10",
    "tc class add dev far0 parent 1: classid 1:10 htb rate 10mbit ceil 10mbit burst 1600 \
     cburst 1600",
    "tc qdisc add dev far0 parent 1:10 pfifo limit 120",
];

/// Starts an endless download; returns it and the count of its bytes.
fn download() -> (TcpStream, Arc<AtomicU64>) {
    let mut stream = TcpStream::connect(("10.0.0.2", 19)).expect("a connection");
    let handle = stream.try_clone().expect("a handle");
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        let mut space = [0; 16_384];
        while let Ok(got @ 1..) = stream.read(&mut space) {
            counted.fetch_add(got as u64, Ordering::Relaxed);
        }
    });
    (handle, count)
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn load_show_change_unload() {
    let _far = Far::with(1, LINE);
    let before = objects();
    assert!(fails("load codel wan0 --ingress", 2).contains("--rate"));
    for name in ["fq_codel", "wred"] {
        let text = fails(&format!("load {name} wan0 --ingress --rate 9mbit"), 2);
        assert!(text.contains("tracks single queued packets"), "{text}");
    }
    assert!(fails("unload wan0 --ingress", 2).contains("--ingress"));
    assert_eq!(objects(), before, "a refused load leaves nothing");
    done("load codel wan0 target_ns=7ms --ingress --rate 9mbit --link adsl:bridged-vc-fcs");
    let one = shown("wan0");
    assert_eq!(
        (&one["at"], &one["discipline"]),
        (&"ingress".into(), &"codel".into())
    );
    assert_eq!(one["rate_bytes_s"], 1_125_000);
    assert_eq!(one["link"]["framing"], "atm");
    // Together with a discipline at the root; neither disturbs the other.
    done("load droptail wan0 --rate 5mbit");
    let (stream, count) = download();
    thread::sleep(Duration::from_secs(2));
    assert!(count.load(Ordering::Relaxed) > 500_000);
    let text = done("show");
    assert!(text.contains("wan0: codel at ingress") && text.contains("wan0: weir_droptail"));
    done("unload wan0");
    let earlier = shown("wan0");
    done("change wan0 target_ns=50ms --ingress --rate 8mbit");
    thread::sleep(Duration::from_secs(1));
    let later = shown("wan0");
    assert_eq!(number(&later, "parameters", "target_ns"), 50_000_000);
    assert_eq!(later["rate_bytes_s"], 1_000_000);
    assert_eq!(later["link"]["framing"], "atm");
    let came = |of| number(of, "statistics", "arrived_packets");
    assert!(came(&later) > came(&earlier) && came(&earlier) > 100);
    let refusal = fails("load red wan0 --ingress --rate 9mbit", 3);
    assert!(refusal.contains("--replace"), "{refusal}");
    done("load red wan0 --ingress --rate 9mbit --replace");
    assert_eq!(shown("wan0")["discipline"], "red");
    done("unload wan0 --ingress");
    let _ = stream.shutdown(Shutdown::Both);
    assert!(done("show").contains("no discipline"));
    let left = Path::new("/sys/fs/bpf/weirgate/ingress").read_dir();
    assert_eq!(left.expect("a folder").count(), 0);
    settled(before);
}

/// A removed device takes its program with it, and the next command removes the pins.
#[test]
#[ignore = "runs in the lab's kernel"]
fn what_is_left_of_a_device_is_removed() {
    let before = objects();
    net::run("ip link add gone0 type dummy");
    net::run("ip link set gone0 up");
    done("load codel gone0 --ingress --rate 9mbit");
    let left = || {
        let folder = Path::new("/sys/fs/bpf/weirgate/ingress").read_dir();
        folder.expect("a folder").count()
    };
    assert_eq!(left(), 1);
    net::run("ip link delete gone0");
    assert_eq!(left(), 1);
    assert!(done("show").contains("no discipline"));
    assert_eq!(left(), 0);
    settled(before);
}

/// A discipline of the user's own, as built by `aqm build`.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_ones_own() {
    let _far = Far::with(1, LINE);
    done(&format!(
        "load {BROUGHT}/mean.so wan0 limit_packets=20 --ingress --rate 9mbit"
    ));
    let (stream, count) = download();
    thread::sleep(Duration::from_secs(3));
    let last = shown("wan0");
    assert_eq!(last["discipline"], "mean");
    assert!(count.load(Ordering::Relaxed) > 1_000_000);
    assert!(last["drops"]["limit"].as_u64() > Some(0), "{last}");
    done("unload wan0 --ingress");
    assert!(!Path::new("/run/weirgate/aqm/mean.so").exists());
    let _ = stream.shutdown(Shutdown::Both);
}
