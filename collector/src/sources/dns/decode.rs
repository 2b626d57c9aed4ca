//! Bytes of one packet to one DNS message: who asked whom for what, and what was answered. Pure and total: any bytes give a
//! message or none. Knows DNS by its shape (one ordinary question with a plausible name), whatever the port. Matching
//! questions with answers is [`super::matching`]'s.

use std::net::{IpAddr, SocketAddr};

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use hickory_proto::op::{Header, MessageType, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

/// The record type that was asked for, as far as it is told apart here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// A service's hosts and ports.
    Srv,
    /// Anything else: counted, never judged.
    Other(u16),
}

impl Kind {
    /// Its bit in a set of kinds; none for those that are never judged.
    #[must_use]
    pub fn bit(self) -> u8 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 2,
            Kind::Srv => 4,
            Kind::Other(_) => 0,
        }
    }

    /// As people write it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Kind::A => "A",
            Kind::Aaaa => "AAAA",
            Kind::Srv => "SRV",
            Kind::Other(_) => "other",
        }
    }
}

/// What an answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Records of the kind asked for.
    Records,
    /// The name is there, records of that kind are not.
    NoData,
    /// There is no such name.
    NxDomain,
    /// The resolver failed.
    ServFail,
    /// The resolver does not want to.
    Refused,
    /// Cut short: asked again over TCP. Also any other code: neither success nor failure.
    Neutral,
}

/// One question or one answer, as seen on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent the packet.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// The message's id.
    pub id: u16,
    /// The name in lower case, without the last dot.
    pub name: String,
    /// The record type asked for.
    pub kind: Kind,
    /// The answer; none for a question.
    pub reply: Option<Reply>,
}

/// The message in a packet that begins at its IP header and may be cut; none where it is not DNS.
#[must_use]
pub fn packet(bytes: &[u8]) -> Option<Message> {
    let sliced = LaxSlicedPacket::from_ip(bytes).ok()?;
    let (from, to) = match sliced.net? {
        LaxNetSlice::Ipv4(ip) => {
            (IpAddr::V4(ip.header().source_addr()), IpAddr::V4(ip.header().destination_addr()))
        }
        LaxNetSlice::Ipv6(ip) => {
            (IpAddr::V6(ip.header().source_addr()), IpAddr::V6(ip.header().destination_addr()))
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let (payload, ports) = match sliced.transport? {
        TransportSlice::Udp(udp) => (udp.payload(), (udp.source_port(), udp.destination_port())),
        TransportSlice::Tcp(tcp) => {
            // A message over TCP begins with its length. One that is spread over segments is known by its first.
            let (length, message) = tcp.payload().split_first_chunk::<2>()?;
            let length = usize::from(u16::from_be_bytes(*length));
            let message = message.get(..length).unwrap_or(message);
            (message, (tcp.source_port(), tcp.destination_port()))
        }
        _ => return None,
    };
    let body = message(payload)?;
    Some(Message { from: SocketAddr::new(from, ports.0), to: SocketAddr::new(to, ports.1), ..body })
}

/// The message in the bytes of a datagram; none where they are not DNS. Its addresses are left unspecified.
#[must_use]
pub fn message(bytes: &[u8]) -> Option<Message> {
    let mut decoder = BinDecoder::new(bytes);
    let header = Header::read(&mut decoder).ok()?;
    let counts = header.counts;
    if header.metadata.op_code != OpCode::Query || counts.queries != 1 {
        return None;
    }
    let query = Query::read(&mut decoder).ok()?;
    if query.query_class() != DNSClass::IN {
        return None;
    }
    let kind = match query.query_type() {
        RecordType::A => Kind::A,
        RecordType::AAAA => Kind::Aaaa,
        RecordType::SRV => Kind::Srv,
        other => Kind::Other(u16::from(other)),
    };
    let name = plain(query.name())?;
    let reply = match header.metadata.message_type {
        MessageType::Query => {
            // A question has no answers, and nothing behind it but one pseudo-record of options.
            let rest = bytes.get(decoder.index()..).unwrap_or_default();
            let options = counts.additionals == 1 && matches!(rest, [0, 0, 41, ..]);
            let alone = counts.additionals == 0 && rest.is_empty();
            if counts.answers != 0 || counts.authorities != 0 || !(alone || options) {
                return None;
            }
            None
        }
        MessageType::Response => Some(reply(&header, &mut decoder, query.query_type())),
    };
    let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
    Some(Message { from: nobody, to: nobody, id: header.metadata.id, name, kind, reply })
}

fn reply(header: &Header, decoder: &mut BinDecoder<'_>, asked: RecordType) -> Reply {
    match header.metadata.response_code.low() {
        0 if header.metadata.truncation => Reply::Neutral,
        0 if has_records(header.counts.answers, decoder, asked) => Reply::Records,
        0 => Reply::NoData,
        2 => Reply::ServFail,
        3 => Reply::NxDomain,
        5 => Reply::Refused,
        _ => Reply::Neutral,
    }
}

/// Whether a record of the kind asked for is among the answers. One that can not be read (we keep the first part of a
/// packet only) counts as such: the resolver did answer.
fn has_records(count: u16, decoder: &mut BinDecoder<'_>, asked: RecordType) -> bool {
    for _ in 0..count {
        match Record::read(decoder) {
            Ok(record) if record.record_type() == asked || asked == RecordType::ANY => return true,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
    false
}

/// A name as hosts have them: letters, digits, `-` and `_`, in lower case; none where it holds anything else.
fn plain(name: &Name) -> Option<String> {
    let mut out = String::new();
    for label in name.iter() {
        if !out.is_empty() {
            out.push('.');
        }
        for byte in label {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                return None;
            }
            out.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Real packets, each with what it is.
    pub(crate) fn packets() -> Vec<(String, Vec<u8>)> {
        let text = include_str!("../../../tests/fixtures/dns/embedded-resolver.txt");
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        let hex = |h: &str| {
            (0..h.len() / 2).map(|n| u8::from_str_radix(&h[2 * n..2 * n + 2], 16).unwrap()).collect()
        };
        lines.map(|l| l.split_once(": ").unwrap()).map(|(what, h)| (what.to_string(), hex(h))).collect()
    }

    pub(crate) fn udp_packet(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 53], 64).udp(40000, 53);
        builder.write(&mut out, payload).unwrap();
        out
    }

    /// A segment that carries one message with its length before it.
    pub(crate) fn tcp_packet(message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 53], 64)
            .tcp(40000, 53, 1, 1000)
            .options(&[etherparse::TcpOptionElement::Timestamp(1, 2)])
            .unwrap();
        let payload = [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat();
        builder.write(&mut out, &payload).unwrap();
        out
    }

    #[test]
    fn real_packets() {
        let got: Vec<String> = packets()
            .iter()
            .map(|(what, bytes)| {
                let m = packet(bytes).unwrap_or_else(|| panic!("{what}"));
                format!(
                    "{what} | {} > {} {:04x} {} {} {:?}",
                    m.from,
                    m.to,
                    m.id,
                    m.name,
                    m.kind.text(),
                    m.reply
                )
            })
            .collect();
        assert_eq!(
            got,
            [
                "search question A | 127.0.0.1:36369 > 127.0.0.11:46194 ddb5 backend.example.test A None",
                "search forwarded A | 172.18.0.3:50404 > 192.0.2.53:53 ddb5 backend.example.test A None",
                "search answered A from afar | 192.0.2.53:53 > 172.18.0.3:50404 ddb5 backend.example.test A Some(NxDomain)",
                "search answered A nxdomain | 127.0.0.11:53 > 127.0.0.1:36369 ddb5 backend.example.test A Some(NxDomain)",
                "question A | 127.0.0.1:39961 > 127.0.0.11:46194 230c backend A None",
                "answer A | 127.0.0.11:53 > 127.0.0.1:39961 230c backend A Some(Records)",
                "question AAAA | 127.0.0.1:39961 > 127.0.0.11:46194 811b backend AAAA None",
                "answer AAAA without data | 127.0.0.11:53 > 127.0.0.1:39961 811b backend AAAA Some(NoData)",
                "gone question A | 127.0.0.1:60528 > 127.0.0.11:46194 10d2 backend A None",
                "gone forwarded A | 172.18.0.3:40179 > 192.0.2.53:53 10d2 backend A None",
                "gone answer from afar | 192.0.2.53:53 > 172.18.0.3:40179 10d2 backend A Some(NxDomain)",
                "gone answer A nxdomain | 127.0.0.11:53 > 127.0.0.1:60528 10d2 backend A Some(NxDomain)",
                "gone question SRV | 127.0.0.1:44696 > 127.0.0.11:46194 6784 backend SRV None",
                "gone answer SRV nxdomain | 127.0.0.11:53 > 127.0.0.1:44696 6784 backend SRV Some(NxDomain)",
            ]
        );
    }

    #[test]
    fn over_tcp_the_same() {
        for (what, bytes) in packets() {
            let udp = packet(&bytes).unwrap();
            let tcp = packet(&tcp_packet(&bytes[28..])).unwrap_or_else(|| panic!("{what}"));
            assert_eq!(
                (udp.id, udp.name, udp.kind, udp.reply),
                (tcp.id, tcp.name, tcp.kind, tcp.reply),
                "{what}"
            );
        }
    }

    /// One question for `backend` of type A and what follows it, behind a header of these flags and counts.
    fn made(flags: [u8; 2], counts: [u8; 3], name: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut m = vec![0, 7, flags[0], flags[1], 0, 1, 0, counts[0], 0, counts[1], 0, counts[2]];
        m.extend(name);
        m.extend([0, 1, 0, 1]);
        m.extend(rest);
        m
    }

    #[test]
    fn every_answer_is_told_apart() {
        let address = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7];
        let alias = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'x', 0xc0, 12];
        let name = b"\x07BackEnd\0";
        for (flags, counts, rest, reply) in [
            ([0x81, 0x80], [1, 0, 0], &address[..], Reply::Records),
            ([0x81, 0x80], [2, 0, 0], &[alias, address].concat(), Reply::Records),
            ([0x81, 0x80], [1, 0, 0], &alias[..], Reply::NoData),
            ([0x81, 0x80], [9, 0, 0], &address[..9], Reply::Records),
            ([0x81, 0x80], [0, 0, 0], &[], Reply::NoData),
            ([0x83, 0x80], [0, 0, 0], &[], Reply::Neutral),
            ([0x81, 0x82], [0, 0, 0], &[], Reply::ServFail),
            ([0x81, 0x83], [0, 1, 0], &[], Reply::NxDomain),
            ([0x81, 0x85], [0, 0, 0], &[], Reply::Refused),
            ([0x81, 0x84], [0, 0, 0], &[], Reply::Neutral),
        ] {
            let m = message(&made(flags, counts, name, rest)).unwrap();
            assert_eq!((m.name.as_str(), m.reply), ("backend", Some(reply)), "{flags:x?} {counts:?}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_none() {
        let name = &b"\x07backend\0"[..];
        let options = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
        assert!(message(&made([1, 0], [0, 0, 1], name, &options)).is_some(), "with options");
        for (what, bytes) in [
            ("bytes behind the question", made([1, 0], [0, 0, 0], name, b"x")),
            ("a question with answers", made([1, 0], [1, 0, 0], name, &[])),
            ("a record that is no option", made([1, 0], [0, 0, 1], name, &[0, 0, 1])),
            ("an update", made([0x28, 0], [0, 0, 0], name, &[])),
            ("a name with a blank", made([1, 0], [0, 0, 0], b"\x07back nd\0", &[])),
            ("a name with a control", made([1, 0], [0, 0, 0], b"\x07back\x1bnd\0", &[])),
            ("a name that points at itself", made([1, 0], [0, 0, 0], &[0xc0, 12], &[])),
            ("another class", {
                let mut m = made([1, 0], [0, 0, 0], name, &[]);
                *m.last_mut().unwrap() = 3;
                m
            }),
            ("nothing", Vec::new()),
        ] {
            assert_eq!(message(&bytes), None, "{what}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_message_or_none(bytes: Vec<u8>) {
            let _ = (packet(&bytes), message(&bytes));
        }

        #[test]
        fn any_change_to_a_real_packet_is_borne(which in 0usize..14, at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut bytes = packets()[which].1.clone();
            let (at, cut) = (at.index(bytes.len()), cut.index(bytes.len()) + 1);
            bytes[at] = byte;
            if let Some(m) = packet(&bytes[..cut]) {
                prop_assert!(!m.name.is_empty() && m.name.len() <= 255);
                prop_assert!(m.name.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
