// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bursts, hours and quotas of plans: tests that run in the guest. Ignored elsewhere.

use crate::inside::{Flood, circuits, done, in_force_of, net, routes, sent, settled};
use crate::kept::{Keeper, boot, forget_all_of, within};
use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weirgate_circuits::rows::Label;

const DEVICES: &str = "\
Circuit ID,IPv4,Plan
burst,100.64.0.1,burst
night,100.64.0.2,night
metered,100.64.0.3,metered
";

const PLANS: &str = "\
Plan,Download Max Mbps,Upload Max Mbps,Download Burst MB,Hours,Days,Download Quota GB,Beyond
burst,1,1,0.5,,,,
night,2,1,,,,,
night,4,1,0.1,01:00-07:00,mon,,
metered,10,1,,,,0.002,slow
slow,0.5,1,,,,,
";

/// Monday, 30 November 2026, 00:00 UTC.
const MONDAY: u64 = 1_795_996_800;

const HOUR: u64 = 3_600;

/// Sets the guest's clock.
fn clock(seconds: u64) {
    let time = libc::timespec {
        tv_sec: seconds as i64,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "the guest's own clock")]
    // SAFETY: the call only reads the time.
    let set = unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Returns the maximum rate of a circuit, in kbit/s.
fn most(id: &str) -> u64 {
    in_force_of("wan0").0[&format!("c{id}")] / 125
}

/// Returns the used bytes of a circuit's quota; 0 if unknown.
fn used(id: &str) -> u64 {
    let shown = done(&format!("show wan0 {id} --json"));
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    shown[0]["used_bytes"].as_u64().unwrap_or(0)
}

/// A circuit that was idle for long exceeds its rate by its burst, once.
fn a_burst_is_given_once() {
    let tree = circuits();
    let label = [Label::Circuit("burst".to_owned())];
    for time in 1..=2 {
        // Five seconds fill the bucket, also of a machine that has just booted.
        thread::sleep(Duration::from_secs(5));
        let flood = Flood::to("100.64.0.1".parse().expect("an address"), 20);
        let from = sent(&tree, &label)[0];
        thread::sleep(Duration::from_secs(1));
        let to = sent(&tree, &label)[0];
        // A second at 1 Mbit/s is 125,000 bytes.
        let due = 125_000.0 * (to.1 - from.1).as_secs_f64() + 500_000.0;
        let had = (to.0 - from.0) as f64;
        let after = format!("time {time}: {had} of {due:.0} bytes");
        assert!((had - due).abs() < 0.05 * due, "{after}");
        let later = sent(&tree, &label)[0];
        thread::sleep(Duration::from_secs(1));
        let end = sent(&tree, &label)[0];
        let due = 125_000.0 * (end.1 - later.1).as_secs_f64();
        let had = (end.0 - later.0) as f64;
        assert!((had - due).abs() <= 1_042.0, "{had} of {due}");
        drop(flood);
    }
}

/// Plans set their rates at their hours, and so do quotas: while `keep` runs, after a reboot, and
/// at the end of the month.
#[test]
#[ignore = "runs in the lab's kernel"]
fn plans_give_bursts_hours_and_quotas() {
    settled([0; 3]);
    let _far = net::Far::new(1);
    routes();
    let began = Instant::now();
    let real = SystemTime::now().duration_since(UNIX_EPOCH);
    clock(MONDAY + HOUR - 30);
    fs::write("/tmp/devices.csv", DEVICES).expect("a file");
    fs::write("/tmp/plans.csv", PLANS).expect("a file");
    println!("{}", done("apply wan0 /tmp/devices.csv /tmp/plans.csv"));
    assert_eq!(most("night"), 2_000);
    a_burst_is_given_once();
    let long = Duration::from_secs(30);
    {
        let _keeper = Keeper::start();
        // `keep` checks every ten seconds.
        clock(MONDAY + HOUR - 1);
        let waited = within(long, "the hours of the night", || most("night") == 4_000);
        println!("the night began after {waited:?}");
        // The rates also follow a clock that is set back.
        clock(MONDAY);
        within(long, "the evening before", || most("night") == 2_000);
        // A change of one circuit applies the present rate of its plan.
        clock(MONDAY + 2 * HOUR);
        done("change wan0 burst --plan night");
        assert_eq!(most("burst"), 4_000);
        within(long, "the night", || most("night") == 4_000);

        assert_eq!(most("metered"), 10_000);
        let flood = Flood::to("100.64.0.3".parse().expect("an address"), 20);
        let waited = within(long, "the end of the quota", || most("metered") == 500);
        println!("the quota was used up after {waited:?}");
        drop(flood);
    }
    let had = used("metered");
    assert!(had > 2_000_000, "{had} bytes");
    // A new list, a reboot or another device does not reset the quota.
    done("apply wan0 /tmp/devices.csv /tmp/plans.csv");
    assert_eq!(most("metered"), 500);
    forget_all_of("wan0");
    settled([0; 3]);
    boot();
    assert_eq!((most("metered"), used("metered")), (500, had));
    // Another plan and another month do.
    done("change wan0 metered --plan burst");
    assert_eq!(most("metered"), 1_000);
    done("change wan0 metered --plan metered");
    assert_eq!(most("metered"), 500);
    let _keeper = Keeper::start();
    clock(MONDAY + 24 * HOUR);
    within(long, "another month", || most("metered") == 10_000);
    assert_eq!(used("metered"), 0);
    let text = done("show wan0 metered");
    assert!(text.contains("of this month's quota: 0 bytes"), "{text}");
    done("remove wan0 --all");
    let real = real.expect("a time") + began.elapsed();
    clock(real.as_secs());
}
