use super::*;
use crate::id::WorkerId;

fn offer(worker: u64) -> Offer {
    Offer::new(WorkerId(worker), Some(Token([7; 32])), format!("host-{worker}:1"))
}

fn any(_: Purpose, _: u16) -> bool {
    true
}

/// Feeds bytes piece by piece, as much as is wanted at a time and no more than `piece`.
fn host(
    host: &mut Host,
    mut bytes: &[u8],
    piece: usize,
    out: &mut Vec<u8>,
) -> Result<Option<Agreed>, Rejection> {
    while host.wants() > 0 && !bytes.is_empty() {
        let (now, later) = bytes.split_at(host.wants().min(piece).min(bytes.len()));
        bytes = later;
        if let Some(agreed) = host.on_bytes(now, any, out)? {
            return Ok(Some(agreed));
        }
    }
    Ok(None)
}

fn client(client: &mut Client, mut bytes: &[u8]) -> Result<Option<Agreed>, Rejection> {
    while client.wants() > 0 && !bytes.is_empty() {
        let (now, later) = bytes.split_at(client.wants().min(bytes.len()));
        bytes = later;
        if let Some(agreed) = client.on_bytes(now)? {
            return Ok(Some(agreed));
        }
    }
    Ok(None)
}

/// Both results of a handshake between two offers.
fn shake(
    ours: Offer,
    theirs: Offer,
) -> (Result<Option<Agreed>, Rejection>, Result<Option<Agreed>, Rejection>) {
    let (mut hello, mut answer) = (Vec::new(), Vec::new());
    let mut asking = Client::start(ours, Purpose::Data, 5, &mut hello);
    let hosted = host(&mut Host::new(theirs), &hello, usize::MAX, &mut answer);
    (client(&mut asking, &answer), hosted)
}

/// The host's answer to these bytes.
fn rejection(bytes: &[u8]) -> (Rule, String, Vec<u8>) {
    let mut out = Vec::new();
    let rejection = host(&mut Host::new(offer(2)), bytes, usize::MAX, &mut out).expect_err("a stranger");
    assert!(!rejection.by_peer);
    (rejection.rule, rejection.to_string(), out)
}

fn hello(change: impl FnOnce(&mut Hello<'static>)) -> Vec<u8> {
    let mut hello = Hello {
        versions: VERSIONS,
        features: Features::NONE,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        purpose: Purpose::Data,
        endpoint: 5,
        worker: WorkerId(1),
        token: Some(Token([7; 32])),
        address: "",
    };
    change(&mut hello);
    let mut out = Vec::new();
    Frame::Hello(hello).encode(&mut out, Features::NONE);
    out
}

#[test]
fn both_sides_know_the_same_afterwards() {
    let ours = Offer { payload_bytes_max: 8192, features: Features::CRC, ..offer(1) };
    let theirs = Offer { features: Features(0xff), ..offer(2) };
    let (asking, hosted) = shake(ours, theirs);
    let agreed = Agreed {
        version: 1,
        features: Features::CRC,
        payload_bytes_max: 8192,
        peer_worker: WorkerId(2),
        peer_address: "host-2:1".into(),
        purpose: Purpose::Data,
        endpoint: 5,
    };
    assert_eq!(agreed.limits(), Limits::Session { payload_bytes_max: 8192 });
    assert_eq!(asking, Ok(Some(agreed.clone())));
    let hosted_agreed = Agreed { peer_worker: WorkerId(1), peer_address: "host-1:1".into(), ..agreed };
    assert_eq!(hosted, Ok(Some(hosted_agreed)));
}

#[test]
fn features_are_those_of_both() {
    let both = |ours, theirs| {
        let (asking, hosted) =
            shake(Offer { features: ours, ..offer(1) }, Offer { features: theirs, ..offer(2) });
        let features = asking.expect("welcome").expect("at once").features;
        assert_eq!(hosted.expect("welcome").expect("at once").features, features);
        features
    };
    assert_eq!(both(Features::CRC, Features::CRC), Features::CRC);
    assert_eq!(both(Features::CRC, Features::NONE), Features::NONE);
    assert_eq!(both(Features::NONE, Features::CRC), Features::NONE);
}

#[test]
fn bytes_may_come_one_by_one_and_none_is_taken_that_follows() {
    let bytes = hello(|_| {});
    for piece in 1..bytes.len() {
        let mut out = Vec::new();
        let mut hosting = Host::new(offer(2));
        let followed = [&bytes[..], &[1; 100]].concat();
        assert!(matches!(host(&mut hosting, &followed, piece, &mut out), Ok(Some(_))));
        assert_eq!(hosting.wants(), 0);
        assert!(!out.is_empty());
    }
    let mut out = Vec::new();
    let mut hosting = Host::new(offer(2));
    assert_eq!(host(&mut hosting, &bytes[..bytes.len() - 1], 3, &mut out), Ok(None));
    assert_eq!((hosting.wants(), out.len()), (1, 0));
}

#[test]
fn strangers_are_recognised_and_told_nothing() {
    let stranger = |bytes: &[u8], says: &str| {
        let (rule, text, out) = rejection(bytes);
        assert!(text.contains(says), "{text}");
        assert!(out.is_empty(), "{text}");
        rule
    };
    assert_eq!(stranger(b"GET / HTTP/1.1\r\n\r\n", "speaks HTTP"), Rule::OPENING);
    assert_eq!(stranger(b"PRI * HTTP/2.0\r\n", "speaks HTTP"), Rule::OPENING);
    assert_eq!(stranger(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS"), Rule::OPENING);
    assert_eq!(stranger(b"SSH-2.0-OpenSSH_9.9\r\n", "speaks SSH"), Rule::OPENING);
    assert_eq!(stranger(&[0xff; 100], "no frame of kind 255"), Rule::KIND);
    assert_eq!(stranger(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0], "4294967295 bytes follow"), Rule::LENGTH);
    // Frames of ours that don't begin a connection.
    assert_eq!(stranger(&[16, 0, 0, 0, 15, 0, 0, 0], "at most 0 may"), Rule::LENGTH);
    let mut foreign = hello(|_| {});
    foreign[HEADER_BYTES] = b'x';
    assert_eq!(stranger(&foreign, "don't begin a connection"), Rule::OPENING);
    let mut reject = Vec::new();
    Frame::Reject(Reject { rule: Rule::TOKEN, text: "no" }).encode(&mut reject, Features::NONE);
    assert_eq!(stranger(&reject, "no HELLO comes first"), Rule::OPENING);
}

#[test]
fn a_client_knows_who_isn_t_a_worker() {
    let answered = |bytes: &[u8]| {
        let mut asking = Client::start(offer(1), Purpose::Data, 5, &mut Vec::new());
        client(&mut asking, bytes).expect_err("no worker")
    };
    let http = answered(b"HTTP/1.1 400 Bad Request\r\n");
    assert_eq!(http.rule, Rule::OPENING);
    assert!(http.text.contains("HTTP"), "{http}");
    assert_eq!(answered(&hello(|_| {})).rule, Rule::OPENING);
}

#[test]
fn versions_have_to_meet() {
    for (versions, fits) in
        [((0, 0), false), ((0, 1), true), ((1, 9), true), ((2, 9), false), ((3, 2), false)]
    {
        let bytes = hello(|hello| hello.versions = versions);
        let mut out = Vec::new();
        let result = host(&mut Host::new(offer(2)), &bytes, usize::MAX, &mut out);
        match result {
            Ok(Some(agreed)) => assert_eq!((fits, agreed.version), (true, 1)),
            Err(rejection) => assert_eq!((fits, rejection.rule), (false, Rule::VERSION)),
            Ok(None) => panic!("nothing"),
        }
        assert!(!out.is_empty(), "either way it is told");
    }
    // The body of another version may be anything behind the versions.
    let mut future = hello(|hello| hello.versions = (2, 3));
    future[HEADER_BYTES + 12] = 99;
    let (rule, text, out) = rejection(&future);
    assert_eq!(rule, Rule::VERSION);
    assert_eq!(text, "P-6: the peer speaks versions 2 to 3, this worker 1 to 1; update the older one");
    let mut asking = Client::start(offer(1), Purpose::Data, 5, &mut Vec::new());
    let told = client(&mut asking, &out).expect_err("rejected");
    assert_eq!((told.rule, told.by_peer), (Rule::VERSION, true));
}

#[test]
fn tokens_have_to_be_the_same() {
    let with = |token| Offer { token, ..offer(1) };
    let (one, other) = (Some(Token([7; 32])), Some(Token([8; 32])));
    for (ours, theirs, fits) in
        [(one, one, true), (None, None, true), (one, other, false), (one, None, false), (None, one, false)]
    {
        let (asking, hosted) = shake(with(ours), with(theirs));
        assert_eq!((asking.is_ok(), hosted.is_ok()), (fits, fits));
        if let (Err(asking), Err(hosted)) = (asking, hosted) {
            assert_eq!((asking.rule, asking.by_peer), (Rule::TOKEN, true));
            assert_eq!((hosted.rule, hosted.by_peer), (Rule::TOKEN, false));
        }
    }
    // A host that has another is no host of ours, whatever it says.
    let mut asking = Client::start(offer(1), Purpose::Data, 5, &mut Vec::new());
    let mut welcome = hello(|hello| hello.token = other);
    welcome[4] = Kind::Welcome as u8;
    assert_eq!(client(&mut asking, &welcome).expect_err("not ours").rule, Rule::TOKEN);
}

#[test]
fn the_endpoint_has_to_exist() {
    let bytes = hello(|_| {});
    let mut out = Vec::new();
    let mut hosting = Host::new(offer(2));
    assert_eq!(hosting.on_bytes(&bytes[..8], |_, _| panic!("too early"), &mut out), Ok(None));
    let has = |purpose, endpoint| {
        assert_eq!((purpose, endpoint), (Purpose::Data, 5));
        false
    };
    let rejection = hosting.on_bytes(&bytes[8..], has, &mut out).expect_err("no such endpoint");
    assert_eq!(rejection.rule, Rule::ENDPOINT);
    assert!(!out.is_empty());
}

#[test]
fn limits_and_answers_are_what_both_can_do() {
    assert_eq!(rejection(&hello(|hello| hello.payload_bytes_max = 4095)).0, Rule::FEATURES);
    let welcomed = |change: fn(&mut Hello<'static>)| {
        let mut asking = Client::start(offer(1), Purpose::Data, 5, &mut Vec::new());
        let mut welcome = hello(change);
        welcome[4] = Kind::Welcome as u8;
        client(&mut asking, &welcome).map_err(|rejection| rejection.rule).map(|agreed| agreed.is_some())
    };
    assert_eq!(welcomed(|_| {}), Ok(true));
    assert_eq!(welcomed(|hello| hello.features = Features::CRC), Err(Rule::FEATURES), "not asked for");
    assert_eq!(welcomed(|hello| hello.payload_bytes_max = 4095), Err(Rule::FEATURES));
    assert_eq!(welcomed(|hello| hello.payload_bytes_max += 1), Err(Rule::FEATURES));
    assert_eq!(welcomed(|hello| hello.versions = (0, 1)), Err(Rule::VERSION));
    assert_eq!(welcomed(|hello| hello.versions = (2, 2)), Err(Rule::VERSION));
    assert_eq!(welcomed(|hello| hello.endpoint = 4), Err(Rule::ENDPOINT));
    assert_eq!(welcomed(|hello| hello.purpose = Purpose::Control), Err(Rule::ENDPOINT));
}
