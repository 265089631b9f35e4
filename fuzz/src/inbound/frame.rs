// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes frames from any bytes.

/// The rest of an input; zeros follow after its end.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let count = self.0.len().min(N);
        let (first, rest) = self.0.split_at(count);
        taken[..count].copy_from_slice(first);
        self.0 = rest;
        taken
    }
}

/// A frame with the kernel's metadata.
pub struct Frame {
    pub bytes: Vec<u8>,
    /// Whether it is outgoing.
    pub out: bool,
    /// The offset of the network header.
    pub network: usize,
    /// The protocol in the frame, as the kernel stores it.
    pub protocol: u16,
    /// The number of segments that were merged, and the payload of each.
    pub merged: (u32, u32),
    pub mark: u32,
    pub class: u32,
    /// The time since the previous frame, and a random number.
    pub later_ns: u64,
    pub random: u32,
}

const FLAGS: [u8; 8] = [16, 24, 2, 18, 17, 4, 20, 1];

/// Returns one bit of a byte.
fn has(bits: u8, at: u8) -> bool {
    bits >> at & 1 == 1
}

/// Returns the options of a segment.
fn options(bytes: &mut Bytes<'_>) -> Vec<u8> {
    match bytes.byte() % 8 {
        0 | 1 => Vec::new(),
        2 => vec![2, 4, 5, 0xb4, 1, 3, 3, 7],
        3 => vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        // The maximum segment size at an odd offset.
        4 => vec![1, 2, 4, 5, 0xb4, 3, 3, 14],
        5 => vec![2, 4, 2, 24],
        _ => {
            let count = usize::from(bytes.byte() % 11) * 4;
            (0..count).map(|_| bytes.byte()).collect()
        }
    }
}

impl Frame {
    pub fn read(bytes: &mut Bytes<'_>) -> Self {
        let [kind, odd, flags, port, size] = bytes.take();
        let (out, six, udp) = (has(kind, 0), has(kind, 1), has(kind, 2));
        let number = u32::from(u16::from_be_bytes(bytes.take())) << (kind >> 6 & 3);
        let window: [u8; 2] = bytes.take();
        let payload = usize::from(size) * 6;
        let mut transport = Vec::new();
        let ports = [1_000 + u16::from(port % 8), 443];
        let (from, to) = if out { (0, 1) } else { (1, 0) };
        transport.extend(ports[from].to_be_bytes());
        transport.extend(ports[to].to_be_bytes());
        let header = if udp {
            transport.extend(((8 + payload) as u16).to_be_bytes());
            transport.extend([0, 0]);
            8
        } else {
            let options = options(bytes);
            let flags = FLAGS[usize::from(flags % 8)];
            // Both ends use the same numbers: one acknowledges what the other sends, and a SYN
            // takes a sequence number.
            let first = number.wrapping_sub(u32::from(flags >> 1 & 1));
            transport.extend(first.to_be_bytes());
            transport.extend(number.to_be_bytes());
            let header = 20 + options.len();
            transport.extend([(header / 4 * 16) as u8, flags]);
            transport.extend(window);
            transport.extend([0, 0, 0, 0]);
            transport.extend(options);
            header
        };
        transport.resize(header + payload, 0x5a);
        let mut packet = if six {
            ipv6(&transport, udp, odd, out, port)
        } else {
            ipv4(&transport, udp, odd, out, port)
        };
        if has(odd, 3) {
            // A length that exceeds the field.
            let at = if six { 4 } else { 2 };
            packet[at..at + 2].fill(0);
        }
        // An Ethernet header, none, or one that still has a VLAN tag.
        let network = [14, 14, 0, 18][usize::from(odd >> 4 & 3)];
        let mut protocol = if six { 0x86dd } else { 0x0800 };
        let mut frame = vec![2; network];
        frame.extend(packet);
        if network == 18 && has(odd, 7) {
            protocol = 0x8100;
        }
        if has(odd, 6) {
            frame.resize((frame.len() + usize::from(size % 7) + 1).max(60), flags);
        }
        let merged = if has(odd, 2) && payload > 0 {
            let each = (payload / 3).max(1);
            (payload.div_ceil(each) as u32, each as u32)
        } else {
            (0, 0)
        };
        let [changes, time, mark, class] = bytes.take();
        for _ in 0..changes % 4 {
            let at = usize::from(u16::from_be_bytes(bytes.take()));
            let value = bytes.byte();
            let length = frame.len();
            frame[at % length] = value;
        }
        if has(changes, 7) {
            let keep = usize::from(u16::from_be_bytes(bytes.take()));
            let length = network.max(1) + keep % (frame.len() - network + 1);
            frame.truncate(length);
        }
        Self {
            bytes: frame,
            out,
            network,
            protocol,
            merged,
            mark: u32::from(mark % 4),
            class: u32::from(class % 4),
            later_ns: 1 << (time % 36),
            random: u32::from(time) << 24 | u32::from(mark) << 16,
        }
    }
}

fn ipv4(transport: &[u8], udp: bool, odd: u8, out: bool, port: u8) -> Vec<u8> {
    let protocol = if udp { 17 } else { 6 };
    let options = if has(odd, 1) { 8 } else { 0 };
    let header = 20 + options;
    let fragment = if has(odd, 0) { [0x20, 5] } else { [0x40, 0] };
    let mut packet = vec![0x40 | (header / 4) as u8, port >> 6];
    packet.extend(((header + transport.len()) as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment);
    packet.extend([64, protocol, 0, 0]);
    let ends = [[10, 0, 0, 11], [10, 0, 0, 99]];
    packet.extend(ends[usize::from(!out)]);
    packet.extend(ends[usize::from(out)]);
    packet.resize(header, 1);
    packet.extend(transport);
    packet
}

fn ipv6(transport: &[u8], udp: bool, odd: u8, out: bool, port: u8) -> Vec<u8> {
    let protocol = if udp { 17 } else { 6 };
    // Hop-by-hop and destination options, and a fragment header.
    let mut extensions = Vec::new();
    let mut first = protocol;
    if has(odd, 0) {
        extensions = [vec![first, 0, 0, 1, 0, 0, 0, 9], extensions].concat();
        first = 44;
    }
    if has(odd, 1) {
        extensions = [vec![first, 1], vec![1; 14], extensions].concat();
        first = 60;
        extensions = [vec![first, 0, 1, 4, 0, 0, 0, 0], extensions].concat();
        first = 0;
    }
    let mut packet = vec![0x60, (port >> 6) << 4, 0, 0];
    packet.extend(((extensions.len() + transport.len()) as u16).to_be_bytes());
    packet.extend([first, 64]);
    let end = |last: u8| {
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, last);
        address
    };
    let ends = [end(11), end(99)];
    packet.extend(ends[usize::from(!out)]);
    packet.extend(ends[usize::from(out)]);
    packet.extend(extensions);
    packet.extend(transport);
    packet
}
