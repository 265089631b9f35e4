// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of the look-up: the kernel runs the program at egress some thousand times on one frame.
//! In the lab an instruction takes a nanosecond. Runs in the guest; ignored elsewhere.

use crate::frames::quiet;
use crate::inside::{done, net};
use crate::wire::{Frame, ipv4, ipv6, pppoe, tag};
use libbpf_rs::Program;
use libbpf_rs::libbpf_sys::{self, bpf_insn, bpf_prog_test_run_opts, bpf_test_run_opts};
use std::fmt::Write as _;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How often a frame is looked up.
const REPEAT: i32 = 10_000;

/// Circuits of each kind.
const EACH: u32 = 20_000;

/// Opens the program at egress of `sub0`.
fn program() -> OwnedFd {
    let folders = fs::read_dir("/sys/fs/bpf/weirgate/circuits").expect("pins");
    let folder = folders.flatten().next().expect("a device").path();
    Program::fd_from_pinned_path(folder.join("circuits_egress")).expect("a program")
}

/// Loads a program that does nothing, to measure the cost of a run.
fn nothing() -> OwnedFd {
    // r0 = -1; exit
    let code = |code: u8, imm: i32| bpf_insn {
        code,
        imm,
        ..bpf_insn::default()
    };
    let program = [code(0xb7, -1), code(0x95, 0)];
    #[expect(unsafe_code, reason = "libbpf-rs loads objects alone")]
    // SAFETY: the pointers are to a program of two instructions, and to texts that end in
    // zero.
    let file = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"nothing".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            std::ptr::null_mut(),
        )
    };
    assert!(file >= 0, "an empty program");
    #[expect(unsafe_code, reason = "so is what it gives")]
    // SAFETY: the descriptor is new, and nobody else's.
    unsafe {
        OwnedFd::from_raw_fd(file)
    }
}

/// Runs the program on a frame; returns the nanoseconds, and the leaf that it found.
fn looked_up(program: &OwnedFd, frame: &Frame) -> (u32, u32) {
    let bytes = frame.bytes(false);
    // The index of the device, and the place of the result (`struct __sk_buff`).
    let mut context = [0_u32; 48];
    context[10] = net::ifindex("sub0");
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as u64,
        data_in: bytes.as_ptr().cast(),
        data_size_in: bytes.len() as u32,
        ctx_in: context.as_ptr().cast(),
        ctx_size_in: size_of_val(&context) as u32,
        ctx_out: context.as_mut_ptr().cast(),
        ctx_size_out: size_of_val(&context) as u32,
        repeat: REPEAT,
        ..bpf_test_run_opts::default()
    };
    #[expect(unsafe_code, reason = "libbpf-rs runs no program that was pinned")]
    // SAFETY: the descriptor is open, and the pointers are to what their lengths say.
    let status = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    assert_eq!(status, 0, "{frame:?}");
    (options.duration, context[8])
}

/// Three kinds of lists: of addresses alone, of addresses and prefixes, and of all kinds.
const LISTS: [(&str, u32); 3] = [
    ("addresses alone", 1),
    ("addresses and prefixes", 2),
    ("all kinds", 6),
];

/// The keys of a circuit: address, prefixes, session, session with its MAC, VLANs, MAC.
fn keys(kind: u32, number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    // One circuit has the MAC of the frame.
    let mac = match number {
        7 => "02:00:5e:10:00:07".to_owned(),
        _ => format!("06:00:00:{a:02x}:{b:02x}:{c:02x}"),
    };
    match kind {
        0 => format!("100.{}.{b}.{c},,,,", 64 + a),
        1 => {
            let first = std::net::Ipv4Addr::from_bits(10 << 24 | number << 3);
            format!("{first}/29,2001:db8:{a:x}:{:x}::/64,,,", number & 0xffff)
        }
        2 => format!(",,{},,", 1 + number),
        3 => format!(",,{}:{mac},,", 40_000 + number % 1_000),
        4 => format!(",,,{}.{},", 1_000 + number / 4_000, 1 + number % 4_000),
        _ => format!(",,,,{mac}"),
    }
}

/// Returns the median of five measurements.
fn cost(program: &OwnedFd, what: &str, frame: &Frame, is_found: bool) -> String {
    let mut all = [0; 5];
    for one in &mut all {
        let (nanos, leaf) = looked_up(program, frame);
        assert_eq!(leaf > 0, is_found, "{what}");
        *one = nanos;
    }
    all.sort_unstable();
    format!("{what}: {} ({} to {})", all[2], all[0], all[4])
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn look_up_costs() {
    for (name, kinds) in LISTS {
        quiet("ip link add sub0 type dummy", "sub0");
        let mut text = "Circuit ID,IPv4,IPv6,PPPoE Session,VLAN,MAC,Download Max Mbps,Upload Max \
                        Mbps\n"
            .to_owned();
        for kind in 0..kinds {
            for number in 0..EACH {
                let keys = keys(kind, number);
                let _ = writeln!(text, "{kind}-{number},{keys},10,10");
            }
        }
        fs::write("/tmp/costs.csv", text).expect("a file");
        println!("{name}: {}", done("apply sub0 /tmp/costs.csv").trim());
        let program = program();
        let to = |mac: u8, (protocol, within): (u16, Vec<u8>)| Frame {
            subscriber: mac,
            protocol,
            within,
        };
        let nobody = || ipv4([192, 0, 2, 1]);
        let own = || ipv4([100, 64, 3, 7]);
        let has = |kind: u32| kinds > kind;
        let frames = [
            ("an address", to(1, own()), true),
            ("a prefix", to(1, ipv4([10, 0, 80, 3])), has(1)),
            ("a prefix of IPv6", to(1, ipv6("2001:db8:0:7::1")), has(1)),
            ("nobody's address", to(1, nobody()), false),
            (
                "an address behind a tag",
                to(1, tag(0x8100, 7, own())),
                true,
            ),
            (
                "an address behind two tags",
                to(1, tag(0x88a8, 7, tag(0x8100, 7, own()))),
                true,
            ),
            ("an address in a session", to(1, pppoe(65_000, own())), true),
            (
                "an address in a session behind two tags",
                to(1, tag(0x88a8, 7, tag(0x8100, 7, pppoe(65_000, own())))),
                true,
            ),
            ("a session", to(1, pppoe(77, nobody())), has(2)),
            (
                "two tags",
                to(1, tag(0x88a8, 1_001, tag(0x8100, 20, nobody()))),
                has(4),
            ),
            ("a MAC", to(7, nobody()), has(5)),
        ];
        let empty = cost(&nothing(), "nothing", &frames[0].1, false);
        println!("{name}: {empty}");
        for (what, frame, is_found) in frames {
            println!("{name}: {}", cost(&program, what, &frame, is_found));
        }
        done("remove sub0 --all");
        net::run("ip link del sub0");
    }
}
