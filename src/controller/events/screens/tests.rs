//! Tests of the watches of screens.

use futures_util::FutureExt;

use super::*;

fn watch_of(
    computer: ComputerId,
    changes: watch::Receiver<Option<u64>>,
    watches: &Arc<Mutex<Watches>>,
) -> ScreenWatch {
    let (pictures, looking) = (Arc::default(), CancellationToken::new().drop_guard());
    ScreenWatch { computer, changes, pictures, watches: Arc::clone(watches), _looking: looking }
}

#[test]
fn a_look_is_for_the_largest_picture_that_is_wanted() {
    let pictures = Arc::<Pictures>::default();
    let region = |query: ScreenshotQuery| (query.region, query.max_pixels, query.max_bytes);
    assert_eq!(region(query(pictures.pixels())), (Some(REGION.to_owned()), None, None));
    let small = pictures.wish(50_000);
    let (large, same) = (pictures.wish(200_000), pictures.wish(200_000));
    assert_eq!(region(query(pictures.pixels())), (None, Some(200_000), Some(MAX_PICTURE_BYTES)));
    drop(large);
    assert_eq!(pictures.pixels(), Some(200_000));
    drop(same);
    assert_eq!(pictures.pixels(), Some(50_000));
    for (wanted, expected) in [(0, *PICTURE_PIXELS.start()), (u32::MAX, *PICTURE_PIXELS.end())] {
        assert_eq!(pictures.wish(wanted).pixels, expected, "{wanted}");
    }
    drop(small);
    assert_eq!(pictures.pixels(), None);
}

#[test]
fn a_picture_is_given_until_nobody_wants_one() {
    let (pictures, computer) = (Arc::<Pictures>::default(), ComputerId::random());
    let newest = || lock(&pictures.newest).clone();
    let wish = pictures.wish(50_000);
    assert!(pictures.fail("no screen"));
    assert_eq!(newest(), ScreenPicture::Failed("no screen".to_owned()));
    assert!(!pictures.fail("no screen"), "it is known");
    assert!(pictures.fail("no answer") && !pictures.has_image());
    pictures.put(computer, b"picture");
    let message = Bytes::from(format!("{computer}picture"));
    assert!(!pictures.fail("no answer") && pictures.has_image());
    assert_eq!(newest(), ScreenPicture::Image(message), "the last picture stays");
    drop(wish);
    assert_eq!(newest(), ScreenPicture::None);
    // By a look that began earlier.
    pictures.put(computer, b"picture");
    assert!(!pictures.fail("no answer"));
    assert_eq!(newest(), ScreenPicture::None);
}

#[test]
fn only_another_frame_after_the_first_look_is_a_change() {
    let other = |name: &str| Look::Other(name.into());
    for (looks, count) in [
        (vec![other("1")], 0),
        (vec![other("1"), Look::Same, Look::Same], 0),
        (vec![other("1"), other("2"), Look::Same, other("3")], 2),
        (vec![Look::Away], 0),
        (vec![Look::Away, Look::Away, other("1"), Look::Same], 1),
        (vec![other("1"), Look::Away, Look::Same], 0),
    ] {
        let (sender, mut frame) = (watch::Sender::new(None), None);
        let told = format!("{looks:?}");
        for look in looks {
            note(&sender, &mut frame, look);
        }
        assert_eq!(*sender.borrow(), Some(count), "{told}");
    }
}

#[tokio::test]
async fn a_subscription_is_told_of_changes_after_its_begin() {
    let (sender, changes) = watch::channel(None);
    let (watches, computer) = (ScreenWatches::default(), ComputerId::random());
    let watch = Arc::new(watch_of(computer, changes, &watches.0));
    lock(&watches.0).insert(computer, Arc::downgrade(&watch));
    let mut frame = None;
    let mut paint = |name: &str| note(&sender, &mut frame, Look::Other(name.into()));
    let mut first = ScreenChanges::of(Arc::clone(&watch), None);
    // The first look is over, and more, before the subscription waits for it.
    paint("1");
    paint("2");
    first.begin().await;
    first.next().await.unwrap();
    let mut second = ScreenChanges::of(watch, None);
    second.begin().await;
    for changes in [&mut first, &mut second] {
        assert!(changes.next().now_or_never().is_none());
    }
    paint("3");
    paint("4");
    for changes in [&mut first, &mut second] {
        changes.next().await.unwrap();
        assert!(changes.next().now_or_never().is_none(), "two changes are told once");
    }
    second.begin_with_change();
    second.next().await.unwrap();
    assert!(second.next().now_or_never().is_none());
    drop(first);
    assert_eq!(watches.count(), 1);
    drop(second);
    assert_eq!(watches.count(), 0, "nobody is subscribed");
}

#[tokio::test]
async fn who_begins_at_once_is_told_of_the_first_look_alone() {
    let (sender, changes) = watch::channel(None);
    let watch = Arc::new(watch_of(ComputerId::random(), changes, &Arc::default()));
    let mut early = ScreenChanges::of(Arc::clone(&watch), None);
    early.begin_at_once();
    assert!(early.next().now_or_never().is_none());
    note(&sender, &mut None, Look::Other("1".into()));
    early.next().await.unwrap();
    let mut late = ScreenChanges::of(watch, None);
    late.begin_at_once();
    for changes in [&mut early, &mut late] {
        assert!(changes.next().now_or_never().is_none());
    }
}

#[tokio::test]
async fn a_late_first_look_is_a_change() {
    let (sender, changes) = watch::channel(None);
    let watch = watch_of(ComputerId::random(), changes, &Arc::default());
    let mut changes = ScreenChanges::of(Arc::new(watch), None);
    changes.begin_within(Duration::ZERO).await;
    note(&sender, &mut None, Look::Other("1".into()));
    changes.next().await.unwrap();
    assert!(changes.next().now_or_never().is_none());
}
