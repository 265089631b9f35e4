// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines in a real kernel, under real TCP.
//!
//! Each test boots the lab's kernel and runs one of the functions of `inside`
//! there: this very file, packed as a program. It needs qemu, a fetched kernel
//! and the guest's binary.

mod inside;

use inside::parity::{DISCIPLINE, PACKETS};
use std::env;
use std::time::{Duration, Instant};
use weirgate_aqm::Discipline;
use weirgate_lab::{Limits, OwnTests};

fn in_the_guest(name: &str) -> String {
    run(&[], name, Limits::default())
}

/// What decides random numbers in the guest; another one may be tried.
fn seed() -> u64 {
    let stated = env::var("WEIRGATE_SEED").ok();
    stated.and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// The same with bounds of its own, and with variables of the environment.
fn run(variables: &[&str], name: &str, limits: Limits) -> String {
    let own = OwnTests {
        programs: &["env", "ip", "tc"],
        variables,
        seed: seed(),
        limits,
    };
    own.run(&format!("inside::{name}"))
}

#[test]
fn every_discipline_is_taken_by_the_kernel() {
    in_the_guest("loads");
}

#[test]
fn payload_finds_signatures() {
    in_the_guest("payload::signatures");
}

#[test]
fn what_passes_tells_waits_and_round_trips() {
    println!("{}", in_the_guest("passive::waits"));
    println!("{}", in_the_guest("passive::waits_of_engines"));
    println!("{}", in_the_guest("passive::round_trips"));
}

#[test]
fn round_trips_are_of_the_path_alone() {
    println!("{}", in_the_guest("round_trip::of_the_path_alone"));
}

#[test]
fn what_went_leaves_its_room() {
    println!("{}", in_the_guest("passive::devices_come_and_go"));
}

#[test]
fn hosts_are_counted_and_bounded() {
    println!("{}", in_the_guest("passive::hosts"));
    println!("{}", in_the_guest("passive::hosts_in_a_queue"));
}

#[test]
fn filter_and_native_host_agree() {
    println!("{}", in_the_guest("filter::parity"));
    println!("{}", in_the_guest("filter::parity_of_all"));
}

#[test]
fn filter_takes_any_packet() {
    println!("{}", in_the_guest("filter::any_packet"));
}

#[test]
fn odd_packets_are_understood() {
    println!("{}", in_the_guest("odd::padded"));
    println!("{}", in_the_guest("odd::merged_segments_are_received"));
    println!(
        "{}",
        in_the_guest("odd::merged_segments_cost_what_they_did")
    );
    println!("{}", in_the_guest("odd::a_syn_from_outside_frees_nobody"));
    println!("{}", in_the_guest("odd::a_syn_sent_again_frees_nobody"));
}

#[test]
fn holding_costs_less_than_queueing() {
    println!("{}", in_the_guest("cost::a_part_of_a_queue"));
}

#[test]
fn announced_sessions_have_room_made_for_them() {
    println!("{}", in_the_guest("announced::segments"));
    println!("{}", in_the_guest("announced::resets"));
    println!("{}", in_the_guest("announced::any_packet_while_announced"));
    println!("{}", in_the_guest("announced::ends_downloads"));
}

#[test]
fn handshakes_ask_for_a_share_of_a_round_trip() {
    println!("{}", in_the_guest("ask::shares"));
}

#[test]
fn windows_are_written_and_nothing_else() {
    println!("{}", in_the_guest("window::writes"));
    println!("{}", in_the_guest("window::begins"));
    println!("{}", in_the_guest("window::spares"));
    println!("{}", in_the_guest("window::any_packet"));
    println!(
        "{}",
        in_the_guest("window::servers_are_known_once_acknowledged")
    );
}

#[test]
fn forged_handshakes_evict_nobody() {
    println!("{}", in_the_guest("window::forged_handshakes_evict_nobody"));
}

#[test]
fn connections_change_class_in_order() {
    println!("{}", in_the_guest("order::moves"));
    println!("{}", in_the_guest("order::returns"));
    println!("{}", in_the_guest("order::ends"));
    println!("{}", in_the_guest("order::any_packet"));
}

#[test]
fn streams_walk_the_states() {
    println!("{}", in_the_guest("udp::states"));
    println!("{}", in_the_guest("udp::any_packet"));
}

#[test]
fn conditioners_colour_as_their_definitions() {
    println!("{}", in_the_guest("condition::choice"));
    println!("{}", in_the_guest("condition::carried"));
    println!("{}", in_the_guest("condition::smallest"));
    println!("{}", in_the_guest("condition::devices"));
    println!("{}", in_the_guest("condition::any_packet"));
    println!("{}", in_the_guest("condition::colours"));
}

#[test]
fn two_devices_keep_two_states() {
    println!("{}", in_the_guest("two_devices"));
}

#[test]
fn flows_are_told_apart() {
    println!("{}", in_the_guest("flows::told_apart"));
}

#[test]
fn flows_are_what_is_asked_for() {
    println!("{}", in_the_guest("flows::by_parts"));
}

#[test]
fn marks_are_made_in_classes() {
    println!("{}", in_the_guest("marks::in_classes"));
}

#[test]
fn marks_end_with_their_program() {
    println!("{}", in_the_guest("marks::end"));
}

#[test]
fn shaper_is_taken_by_the_kernel() {
    in_the_guest("shaper_loads");
}

#[test]
fn shaper_holds_the_line() {
    println!("{}", in_the_guest("shaper_holds_the_line"));
}

#[test]
fn codel_decides_as_the_kernels() {
    println!("{}", in_the_guest("equal::codel"));
}

#[test]
fn fq_codel_decides_as_the_kernels() {
    println!("{}", in_the_guest("equal::fq_codel"));
}

#[test]
fn kernel_and_native_host_agree() {
    println!("{}", in_the_guest("parity::quick"));
}

/// Must show 4 of the kit: `cargo xtask aqm-parity` runs it, with the number of
/// packets in the environment, and perhaps the names of some disciplines.
#[test]
#[ignore = "a million packets take an hour on a busy machine"]
fn kernel_and_native_host_agree_on_many_packets() {
    let limits = Limits {
        wall: Duration::from_hours(2),
        ..Limits::default()
    };
    let packets = env::var(PACKETS).unwrap_or_else(|_| "1000000".to_owned());
    let named = env::var(DISCIPLINE).unwrap_or_default();
    let wanted = |it: &Discipline| named.is_empty() || named.split(',').any(|own| own == it.name());
    for discipline in Discipline::all().into_iter().filter(wanted) {
        let began = Instant::now();
        let variables = [
            &*format!("{PACKETS}={packets}"),
            &format!("{DISCIPLINE}={}", discipline.name()),
        ];
        let text = run(&variables, "parity::many", limits);
        let told = text.lines().find(|line| line.contains("the same"));
        println!(
            "{}; {} s of wall time",
            told.expect("what was compared"),
            began.elapsed().as_secs()
        );
    }
}

/// What only `make test-all` waits for.
mod long {
    use super::*;

    #[test]
    fn a_million_flows_change_nothing() {
        let limits = Limits {
            wall: Duration::from_mins(20),
            ..Limits::default()
        };
        println!("{}", run(&[], "flood::a_million_flows", limits));
    }

    #[test]
    fn marks_are_made() {
        for (name, ..) in inside::marks::KINDS {
            let variable = format!("{}={name}", inside::marks::DISCIPLINE);
            let name = "marks::beside_the_kernels";
            println!("{}", run(&[&variable], name, Limits::default()));
        }
    }

    #[test]
    fn kernel_and_native_host_agree_on_classes() {
        println!("{}", in_the_guest("parity::of_classes"));
    }

    #[test]
    fn shaper_holds_every_rate() {
        println!("{}", in_the_guest("rate::sweep"));
    }

    #[test]
    fn shaper_shares_the_wire() {
        println!("{}", in_the_guest("shaper_shares_the_wire"));
    }

    #[test]
    fn pie_follows_the_kernels_probability() {
        println!("{}", in_the_guest("equal::pie"));
        println!("{}", in_the_guest("equal::pie_twice"));
    }

    #[test]
    fn windows_hold_a_rate() {
        println!("{}", in_the_guest("window::holds"));
        println!("{}", in_the_guest("second::accepts"));
        println!("{}", in_the_guest("second::recovers"));
    }
}
