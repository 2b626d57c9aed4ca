//! The classic BPF program that keeps everything but DNS-shaped packets from waking us: run by the kernel on each packet of
//! a watched namespace. It knows DNS by its bytes, not by its port, because Docker's embedded resolver is asked on a random
//! port. Cheap checks alone (lengths, flags, one question); [`super::decode`] does the rest. Pure: builds the program, attaches nothing.

use crate::witness::sockopt::Instruction;

/// How much of a packet is handed to us, in bytes.
pub const SNAP: u32 = 2048;
/// The longest IP packet that counts as DNS-sized.
pub const LONGEST: u32 = 4608;
/// The shortest DNS message: header, a name of one letter, type and class.
const SHORTEST: u32 = 12 + 3 + 4;

// linux/filter.h: the packet's metadata, read at negative offsets.
const AD: u32 = 0xffff_f000;
const AD_PKTTYPE: u32 = AD + 4;
const AD_HATYPE: u32 = AD + 28;
/// PACKET_OUTGOING and ARPHRD_LOOPBACK: on the loopback each packet passes twice, and its way out is left out.
const OUTGOING: u32 = 4;
const LOOPBACK: u32 = 772;

// Instruction codes, as far as they are used here.
const LD_W_ABS: u16 = 0x20;
const LD_H_ABS: u16 = 0x28;
const LD_B_ABS: u16 = 0x30;
const LD_H_IND: u16 = 0x48;
const LD_B_IND: u16 = 0x50;
const LD_LEN: u16 = 0x80;
const LDX_IMM: u16 = 0x01;
const LDX_MSH: u16 = 0xb1;
const ADD_X: u16 = 0x0c;
const AND_K: u16 = 0x54;
const RSH_K: u16 = 0x74;
const JEQ: u16 = 0x15;
const JGT: u16 = 0x25;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const TAX: u16 = 0x07;
const RET: u16 = 0x06;

/// Where a jump leads: on to the next instruction, or to a place with a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    At(&'static str),
}

const DROP: To = To::At("drop");

/// A program under construction: instructions whose jumps still carry names.
#[derive(Default)]
struct Assembly {
    code: Vec<(u16, u32, To, To)>,
    places: Vec<(&'static str, usize)>,
}

impl Assembly {
    fn place(&mut self, name: &'static str) {
        self.places.push((name, self.code.len()));
    }
    fn op(&mut self, code: u16, k: u32) {
        self.code.push((code, k, To::Next, To::Next));
    }
    fn jump(&mut self, code: u16, k: u32, yes: To, no: To) {
        self.code.push((code, k, yes, no));
    }

    /// Puts distances in place of names. A jump backwards or beyond 255 has none: that is an error of this file, and
    /// the program is refused rather than cut.
    fn finish(self) -> Option<Vec<Instruction>> {
        let distance = |from: usize, to: To| match to {
            To::Next => Some(0),
            To::At(name) => {
                let place = self.places.iter().find(|(n, _)| *n == name)?.1;
                u8::try_from(place.checked_sub(from + 1)?).ok()
            }
        };
        let each = self.code.iter().enumerate();
        each.map(|(n, (code, k, yes, no))| {
            Some(Instruction { code: *code, k: *k, jt: distance(n, *yes)?, jf: distance(n, *no)? })
        })
        .collect()
    }
}

/// The program, for a socket whose packets begin at the IP header (`AF_PACKET` with `SOCK_DGRAM`).
#[must_use]
pub fn program() -> Vec<Instruction> {
    // An empty program is refused by the kernel: a mistake here can not become a socket without a filter.
    assemble().finish().unwrap_or_default()
}

fn assemble() -> Assembly {
    let mut a = Assembly::default();
    a.op(LD_W_ABS, AD_PKTTYPE);
    a.jump(JEQ, OUTGOING, To::Next, To::At("size"));
    a.op(LD_W_ABS, AD_HATYPE);
    a.jump(JEQ, LOOPBACK, DROP, To::Next);
    a.place("size");
    a.op(LD_LEN, 0);
    a.jump(JGT, LONGEST, DROP, To::Next);
    a.op(LD_B_ABS, 0);
    a.op(AND_K, 0xf0);
    a.jump(JEQ, 0x40, To::At("v4"), To::Next);
    a.jump(JEQ, 0x60, To::Next, DROP);
    // IPv6 without extension headers, as resolvers send it.
    a.op(LDX_IMM, 40);
    a.op(LD_B_ABS, 6);
    a.jump(JEQ, 17, To::At("udp"), To::Next);
    a.jump(JEQ, 6, To::At("tcp"), DROP);
    a.place("v4");
    a.op(LD_H_ABS, 6);
    a.jump(JSET, 0x1fff, DROP, To::Next);
    a.op(LDX_MSH, 0);
    a.op(LD_B_ABS, 9);
    a.jump(JEQ, 17, To::At("udp"), To::Next);
    a.jump(JEQ, 6, To::At("tcp"), DROP);

    a.place("udp");
    a.op(LD_H_IND, 4);
    a.jump(JGE, 8 + SHORTEST, To::Next, DROP);
    message(&mut a, 8, "over udp");
    a.place("tcp");
    // X moves from the TCP header to its payload: two bytes of length, then the message.
    a.op(LD_B_IND, 12);
    a.op(AND_K, 0xf0);
    a.op(RSH_K, 2);
    a.op(ADD_X, 0);
    a.op(TAX, 0);
    a.op(LD_H_IND, 0);
    a.jump(JGE, SHORTEST, To::Next, DROP);
    a.jump(JGT, LONGEST, DROP, To::Next);
    message(&mut a, 2, "over tcp");
    a.place("drop");
    a.op(RET, 0);
    a
}

/// The checks on the message itself, `at` bytes behind X: an ordinary query or its answer, with one question that has a name.
fn message(a: &mut Assembly, at: u32, pass: &'static str) {
    a.op(LD_H_IND, at + 2);
    // Operation code 0 and the reserved bit clear.
    a.jump(JSET, 0x7840, DROP, To::Next);
    a.op(AND_K, 0x000f);
    a.jump(JGT, 5, DROP, To::Next);
    a.op(LD_H_IND, at + 4);
    a.jump(JEQ, 1, To::Next, DROP);
    a.op(LD_B_IND, at + 12);
    a.jump(JEQ, 0, DROP, To::Next);
    a.jump(JGT, 63, DROP, To::At(pass));
    a.place(pass);
    a.op(RET, SNAP);
}

#[cfg(test)]
mod tests {
    use super::super::decode::tests::{packets, tcp_packet, udp_packet};
    use super::*;
    use proptest::prelude::*;

    /// What the kernel would do: bytes kept, or 0. Follows linux/filter.h; a load beyond the packet drops it.
    fn run(program: &[Instruction], packet: &[u8], pkttype: u32, hatype: u32) -> u32 {
        let load = |at: u32, size: usize| -> Option<u32> {
            if at >= AD {
                return match at {
                    AD_PKTTYPE => Some(pkttype),
                    AD_HATYPE => Some(hatype),
                    _ => panic!("metadata {at:#x}"),
                };
            }
            let bytes = packet.get(at as usize..at as usize + size)?;
            Some(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
        };
        let (mut a, mut x, mut pc) = (0u32, 0u32, 0usize);
        loop {
            let i = program[pc];
            let mut skip = 0;
            let loaded = match i.code {
                LD_W_ABS => load(i.k, 4),
                LD_H_ABS => load(i.k, 2),
                LD_B_ABS => load(i.k, 1),
                LD_H_IND => load(x + i.k, 2),
                LD_B_IND => load(x + i.k, 1),
                LD_LEN => Some(packet.len() as u32),
                ADD_X => Some(a + x),
                AND_K => Some(a & i.k),
                RSH_K => Some(a >> i.k),
                _ => Some(a),
            };
            let Some(value) = loaded else { return 0 };
            a = value;
            match i.code {
                LDX_IMM => x = i.k,
                LDX_MSH => match packet.get(i.k as usize) {
                    Some(b) => x = u32::from(b & 0xf) * 4,
                    None => return 0,
                },
                TAX => x = a,
                RET => return i.k,
                JEQ => skip = if a == i.k { i.jt } else { i.jf },
                JGT => skip = if a > i.k { i.jt } else { i.jf },
                JGE => skip = if a >= i.k { i.jt } else { i.jf },
                JSET => skip = if a & i.k != 0 { i.jt } else { i.jf },
                _ => {}
            }
            pc += 1 + usize::from(skip);
        }
    }

    #[test]
    fn it_assembles() {
        assert!(assemble().finish().is_some());
        assert!(program().len() < 80);
    }

    #[test]
    fn real_messages_pass_over_udp_and_tcp() {
        for (what, packet) in packets() {
            assert_eq!(run(&program(), &packet, 0, 1), SNAP, "{what}");
            // An options word in the header moves everything behind it.
            let mut longer = packet.clone();
            longer[0] = 0x46;
            longer.splice(20..20, [1, 1, 1, 0]);
            assert_eq!(run(&program(), &longer, 0, 1), SNAP, "{what} with options");
            let message = &packet[28..];
            assert_eq!(run(&program(), &tcp_packet(message), 0, 1), SNAP, "{what} over TCP");
        }
    }

    #[test]
    fn the_way_out_of_the_loopback_is_left_out() {
        let packet = &packets()[0].1;
        assert_eq!(run(&program(), packet, OUTGOING, LOOPBACK), 0);
        assert_eq!(run(&program(), packet, OUTGOING, 1), SNAP);
        assert_eq!(run(&program(), packet, 0, LOOPBACK), SNAP);
    }

    #[test]
    fn what_is_not_dns_is_dropped() {
        let message = packets()[0].1[28..].to_vec();
        let changed = |at: usize, byte: u8| {
            let mut m = message.clone();
            m[at] = byte;
            udp_packet(&m)
        };
        for (what, packet) in [
            ("a notify", changed(2, 0x20)),
            ("the reserved bit", changed(3, 0x40)),
            ("an rcode that no query gets", changed(3, 9)),
            ("two questions", changed(5, 2)),
            ("the root", changed(12, 0)),
            ("a pointer for a name", changed(12, 0xc0)),
            ("a short one", udp_packet(&message[..12])),
            ("an HTTP request", tcp_packet(b"GET / HTTP/1.1\r\nHost: a.example.test\r\n\r\n")),
            ("nothing", Vec::new()),
            ("a fragment", {
                let mut p = udp_packet(&message);
                p[7] = 1;
                p
            }),
        ] {
            assert_eq!(run(&program(), &packet, 0, 1), 0, "{what}");
        }
        assert_eq!(
            run(&program(), &udp_packet(&[message.clone(), vec![0; 5000]].concat()), 0, 1),
            0,
            "too long"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_a_verdict(packet: Vec<u8>, kind in 0u32..8, hatype in 0u32..1000) {
            let kept = run(&program(), &packet, kind, hatype);
            prop_assert!(kept == 0 || kept == SNAP);
        }
    }
}
