// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests disciplines in a real kernel, under real TCP.
//!
//! Each test boots the lab's kernel and runs functions of `inside` there: this file is packed as a
//! program. Tests of a module of `together` share a machine. The tests need qemu, a fetched kernel
//! and the guest's binary.

mod inside;

use inside::parity::{DISCIPLINE, PACKETS};
use std::env;
use std::process::Command;
use std::time::{Duration, Instant};
use weirgate_aqm::Discipline;
use weirgate_lab::{Limits, OwnTests, Together};

fn in_the_guest(name: &str) -> String {
    run(&[], name, Limits::default())
}

/// Returns the seed of random numbers in the guest, which the environment can override.
fn seed() -> u64 {
    let stated = env::var("WEIRGATE_SEED").ok();
    stated.and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Runs a function with separate limits, and with variables of the environment.
fn run(variables: &[&str], name: &str, limits: Limits) -> String {
    own(variables, limits).run(&format!("inside::{name}"))
}

fn own<'a>(variables: &'a [&'a str], limits: Limits) -> OwnTests<'a> {
    OwnTests {
        programs: &["env", "ip", "tc"],
        kernel: None,
        variables,
        seed: seed(),
        limits,
    }
}

/// Defines tests that run these functions of `inside`.
macro_rules! in_the_guest {
    ($($test:ident: $($path:literal),+;)+) => {
        $(
            #[test]
            fn $test() {
                $(println!("{}", in_the_guest($path));)+
            }
        )+
    };
}

/// Defines tests that share one guest.
macro_rules! in_one_guest {
    ($($test:ident: $($path:literal),+;)+) => {
        static GUEST: Together = Together::new(
            || own(&[], Limits::default()),
            &[$($(concat!("inside::", $path),)+)+],
        );
        $(
            #[test]
            fn $test() {
                $(println!("{}", GUEST.run(concat!("inside::", $path)));)+
            }
        )+
    };
}

in_the_guest! {
    merged_segments_cost_what_they_did: "odd::merged_segments_cost_what_they_did";
    kernel_and_native_host_agree: "parity::quick";
    programs_of_packages_load: "packaged::without_lines";
}

/// Tests that share a guest with the others of their module.
mod together {
    use super::*;

    /// Programs that are run on given frames, and their verdicts.
    mod frames {
        use super::*;

        in_one_guest! {
            payload_finds_signatures: "payload::signatures";
            filter_and_native_host_agree: "filter::parity";
            filter_takes_any_packet: "filter::any_packet";
            filter_counts_what_finds_it_locked: "filter::locked";
            filter_obeys_measurements: "filter::measured";
            odd_packets_are_understood: "odd::padded", "odd::merged_segments_are_received";
            conditioners_choose_and_carry: "condition::choice", "condition::carried";
            conditioners_have_devices_and_least_sizes: "condition::smallest", "condition::devices";
            conditioners_count_merged_segments: "condition::merged";
            conditioners_count_at_most_the_frame: "condition::stated";
            conditioners_meter_every_packet: "condition::locked";
            conditioners_colour_as_their_definitions: "condition::colours";
        }
    }

    /// Programs that control receive windows.
    mod windows {
        use super::*;

        in_one_guest! {
            handshakes_ask_for_a_share_of_a_round_trip: "window::ask::shares";
            windows_are_shared_by_hosts: "window::tcp::shares_by_hosts";
            windows_are_written: "window::writes", "window::begins", "window::spares", "window::spared_at_first";
            windows_of_large_scales_keep_to_the_credit: "window::scale::rounded";
            connections_of_fast_open_are_known: "window::handshakes::fast_open";
            windows_leave_senders_of_l4s_alone: "window::l4s::left_alone";
            servers_are_known_once_acknowledged: "window::handshakes::servers_are_known_once_acknowledged";
            connections_change_class_in_order: "order::moves", "order::returns", "order::ends";
            streams_walk_the_states: "udp::states";
        }
    }

    /// Programs that observe the traffic of a device.
    mod passing {
        use super::*;

        in_one_guest! {
            what_passes_tells_round_trips: "passive::round_trips";
            round_trips_are_of_the_path_alone: "passive::round_trip::of_the_path_alone";
            vlan_devices_are_seen: "passive::arrivals::of_a_vlan_device";
            only_new_bytes_are_answered: "passive::arrivals::answers";
            padding_is_no_data: "passive::arrivals::padded";
            what_went_leaves_its_room: "passive::devices_come_and_go";
            hosts_are_counted_and_bounded: "passive::hosts";
        }
    }

    /// The congestion control.
    mod prague {
        use super::*;

        in_one_guest! {
            prague_is_there_while_it_is_loaded: "prague::registers";
            prague_stays_as_long_as_its_pins: "prague::pinned";
            prague_alone_is_identified: "prague::identified";
            prague_goes_below_a_segment: "prague::below_a_segment";
            prague_is_classic_where_it_is_not_identified: "prague::unidentified";
        }
    }

    /// Disciplines on a device.
    mod queues {
        use super::*;

        in_one_guest! {
            flows_are_told_apart: "flows::told_apart";
            a_flow_is_new_after_a_pause: "flows::new_after_a_pause";
            circuits_below_a_node_have_their_rates: "engine::shapes";
            circuits_keep_the_order_of_flows: "engine::keeps_order";
            kernel_and_native_engine_agree: "engine::agrees";
            marks_end_with_their_program: "marks::end";
            gates_are_open_at_first: "rate::open_at_first";
        }
    }
}

/// A part of `cargo xtask bench`.
#[test]
#[ignore = "a figure, which `cargo xtask bench` shows"]
fn holding_beside_queueing() {
    println!("{}", in_the_guest("cost::beside_a_queue"));
}

/// Must show 4 of the kit. `cargo xtask aqm-parity` runs it, with the number of packets and
/// optionally the names of disciplines in the environment.
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
        let line = text.lines().find(|line| line.contains("the same"));
        println!(
            "{}; {} s of wall time",
            line.expect("what was compared"),
            began.elapsed().as_secs()
        );
    }
}

/// The corresponding test of the engine.
#[test]
#[ignore = "a million packets take long on a busy machine"]
fn kernel_and_native_engine_agree_on_many_packets() {
    let limits = Limits {
        wall: Duration::from_hours(1),
        ..Limits::default()
    };
    let packets = env::var(PACKETS).unwrap_or_else(|_| "1000000".to_owned());
    let text = run(
        &[&format!("{PACKETS}={packets}")],
        "engine::agrees_on_many",
        limits,
    );
    let line = text.lines().find(|line| line.contains("the same"));
    println!("{}", line.expect("what was compared"));
}

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    in_the_guest! {
        every_discipline_is_taken_by_the_kernel: "loads";
        windows_leave_all_else: "window::any_packet";
        forged_handshakes_evict_nobody: "window::handshakes::forged_handshakes_evict_nobody";
        windows_hold_a_rate: "window::tcp::holds", "window::second::accepts", "window::second::recovers";
        announced_sessions_leave_all_else: "window::announced::any_packet_while_announced";
        announced_sessions_end_downloads: "window::announced::ends_downloads";
        connections_in_order_leave_all_else: "order::any_packet";
        streams_leave_all_else: "udp::any_packet";
        conditioners_leave_all_else: "condition::any_packet";
        conditioners_colour_many_packets_as_their_definitions: "condition::colours_of_many";
        kernel_and_native_host_agree_for_longer: "parity::longer";
        filter_and_native_host_agree_on_all: "filter::parity_of_all";
        what_passes_tells_waits_of_engines: "passive::waits_of_engines";
        what_passes_tells_all_round_trips: "passive::all_round_trips";
        other_round_trips_are_of_the_path_alone: "passive::round_trip::of_other_paths_alone";
        hosts_are_counted_in_a_queue: "passive::hosts_in_a_queue";
        flows_are_what_is_asked_for: "flows::by_parts";
        two_devices_keep_two_states: "two_devices";
        kernel_and_native_host_agree_on_classes: "parity::of_classes";
        a_syn_frees_nobody: "odd::a_syn_from_outside_frees_nobody", "odd::a_syn_sent_again_frees_nobody";
        prague_averages_marks: "prague::alpha_follows_marks";
        a_full_engine_leaves_nothing: "engine::leaves_nothing";
        prague_halves_on_loss: "prague::halves_on_loss";
        prague_is_classic_without_accurate_feedback: "prague::without_feedback";
        prague_responds_once_a_round: "prague::once_a_round";
        timestamps_tell_the_path: "window::path::timestamps_tell_the_path";
        announced_sessions_have_room_made_for_them: "window::announced::segments", "window::announced::resets";
        what_passes_tells_waits: "passive::waits";
        marks_are_made_in_classes: "marks::in_classes";
        prague_is_independent_of_short_round_trips: "prague::round_trips";
        prague_fills_a_line_with_a_shallow_queue: "prague::queue::shallow";
        answered_streams_have_a_share: "window::streams::answered_ones_have_a_share";
        prague_finds_a_classic_queue: "prague::queue::classic";
        shaper_holds_the_line: "shaper_holds_the_line";
        shaper_holds_every_rate: "rate::sweep";
        shaper_shares_the_wire: "shaper_shares_the_wire";
        codel_decides_as_the_kernels: "equal::codel";
        fq_codel_decides_as_the_kernels: "equal::fq_codel";
        pie_follows_the_kernels_probability: "equal::pie", "equal::pie_twice";
    }

    /// The laboratory's disciplines, built by its program as a user's own are.
    #[test]
    fn kernel_and_native_host_agree_on_the_labs() {
        let folder = tempfile::tempdir().expect("a folder");
        let test = env::current_exe().expect("a path");
        let release = test.ancestors().nth(2).expect("a folder above `deps`");
        let mut programs = vec!["env".to_owned(), "ip".to_owned(), "tc".to_owned()];
        for name in Discipline::lab_names() {
            let file = folder.path().join(name).with_extension("so");
            let mut build = Command::new(release.join("weirgate-lab"));
            build.args(["aqm", "build", name, "--output"]).arg(&file);
            assert!(build.status().expect("weirgate-lab").success(), "{name}");
            programs.push(file.to_string_lossy().into_owned());
        }
        let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
        let limits = Limits {
            wall: Duration::from_mins(10),
            ..Limits::default()
        };
        let own = OwnTests {
            programs: &programs,
            ..own(&[], limits)
        };
        println!("{}", own.run("inside::parity::of_the_lab"));
    }

    /// Uses nft, whose rules make the guest's kernel track connections.
    #[test]
    fn old_connections_are_learnt() {
        let own = OwnTests {
            programs: &["env", "ip", "nft", "tc"],
            ..own(&[], Limits::default())
        };
        println!(
            "{}",
            own.run("inside::window::streams::old_connections_are_learnt")
        );
    }

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
}
