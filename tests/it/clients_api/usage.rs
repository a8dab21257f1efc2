//! Monthly usage of a client as JSON and CSV, and the cap on its AI spend.

use futures_util::future::join_all;
use hotdesk::base::clock;
use hotdesk::base::time::parse_month;
use hotdesk::domain::billing::usage::RETAINED_MONTHS;
use reqwest::Method;
use serde_json::json;

use super::create_client;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_month_holds_what_ran_in_it() {
    let controller = Simulation::boot().await;
    let (client, _) =
        create_client(&controller, json!({"external_id": "acme, \"the\" first", "billed_to": "client"}))
            .await;
    let (id, start) = (id_of(&client), clock::now().months_before(3));
    let march = start.month();
    assert_eq!(parse_month(&march).expect("a month").start, start);
    let start = start.as_i64();
    let (one, two) = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
    for (number, (computer, ram, from, to)) in [
        (one, 4, start - 2 * HOUR, start + HOUR),
        (one, 8, start + 10 * HOUR, start + 12 * HOUR),
        (two, 4, start + 10 * HOUR, start + 11 * HOUR),
        (two, 4, start - 20 * HOUR, start - 10 * HOUR),
    ]
    .into_iter()
    .enumerate()
    {
        controller
            .sql(&format!(
                "INSERT INTO runs (id, computer_id, account_id, client_id, cpu, ram_gb, started_at, seen_at, ended_at) \
                 VALUES ('{number}', '{computer}', 'x', '{id}', 1, {ram}, {from}, {from}, {to})"
            ))
            .await;
    }
    let path = format!("/v1/accounts/{id}/usage?month={march}");
    let usage = controller.get(&path).await.body;
    assert_eq!(
        usage,
        json!({"account_id": id, "external_id": "acme, \"the\" first", "month": march, "billed_to": "client",
            "computer_hours": 4, "ram_gb_hours": 24, "ai_spend_usd": 0, "computers": [
                {"computer_id": one, "computer_hours": 3, "ram_gb_hours": 20},
                {"computer_id": two, "computer_hours": 1, "ram_gb_hours": 4}]})
    );
    let response =
        controller.request(Method::GET, &format!("{path}&format=csv")).send().await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/csv; charset=utf-8");
    let csv = response.text().await.expect("text");
    let name = "\"acme, \"\"the\"\" first\"";
    let expected = format!(
        "month,account_id,external_id,billed_to,computer_id,computer_hours,ram_gb_hours,ai_spend_usd\r\n\
         {march},{id},{name},client,{one},3.000000,20.000000,0.000000\r\n\
         {march},{id},{name},client,{two},1.000000,4.000000,0.000000\r\n\
         {march},{id},{name},client,,4.000000,24.000000,0.000000\r\n"
    );
    assert_eq!(csv, expected);
    let february = clock::now().months_before(4).month();
    let before = controller.get(&format!("/clients/{id}/usage?month={february}")).await.body;
    assert_eq!((&before["computer_hours"], &before["ram_gb_hours"]), (&json!(12), &json!(48)));
    // Months beyond the retention period are refused instead of reported as zero.
    let usage_path =
        |months| format!("/clients/{id}/usage?month={}", clock::now().months_before(months).month());
    assert_eq!(controller.get(&usage_path(RETAINED_MONTHS)).await.status, 200);
    assert_eq!(controller.get(&usage_path(RETAINED_MONTHS + 1)).await.status, 400);
    for bad in ["month=2026-13", "month=March", "month=2026-03-01", "format=xml"] {
        assert_eq!(controller.get(&format!("/clients/{id}/usage?{bad}")).await.status, 400, "{bad}");
    }
    let none_used = "00000000-0000-4000-8000-000000000000";
    assert_eq!(controller.get(&format!("/clients/{none_used}/usage")).await.status, 404);
    assert_eq!(controller.get("/clients/nobody/usage").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_ai_spend_stops_at_its_cap_and_is_written_down_once() {
    let controller = Simulation::boot().await;
    let (client, _) =
        create_client(&controller, json!({"external_id": "acme", "monthly_ai_cap_usd": 1.0})).await;
    let path = format!("/v1/accounts/{}/spend", id_of(&client));
    let entries: Vec<String> = (0..50).map(|number| format!("call {number}")).collect();
    let usage_path =
        entries.iter().map(|id| controller.post(&path, json!({"entry_id": id, "amount_usd": 0.1})));
    let answers = join_all(usage_path).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 10, "{answers:?}");
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (402, &json!("credits_exhausted")),
            "{}",
            refused.body
        );
    }
    let winner = answers.iter().position(|answer| answer.status == 200).expect("one");
    let again = controller.post(&path, json!({"entry_id": entries[winner], "amount_usd": 0.1})).await;
    assert_eq!((again.status, &again.body["repeated"]), (200, &json!(true)), "{}", again.body);
    let usage = controller.get(&format!("/clients/{}/usage", id_of(&client))).await.body;
    assert_eq!((&usage["ai_spend_usd"], &usage["month"]), (&json!(1), &json!(clock::now().month())));
    // Last month's spend does not count.
    controller.sql("UPDATE ai_spend SET spent_at = spent_at - 3456000000").await;
    assert_eq!(controller.post(&path, json!({"entry_id": "new month", "amount_usd": 1})).await.status, 200);
    for bad in [
        json!({"entry_id": "", "amount_usd": 1}),
        json!({"entry_id": "x", "amount_usd": -1}),
        json!({"entry_id": "x"}),
        json!({"entry_id": "x", "amount_usd": 1, "note": "x".repeat(256)}),
    ] {
        assert_eq!(controller.post(&path, bad.clone()).await.status, 400, "{bad}");
    }
}

/// Number of costs with rows of their own.
async fn rows(controller: &Simulation) -> i64 {
    let pool = controller.store_pool().await;
    let (rows,): (i64,) =
        sqlx::query_as("SELECT COUNT(*) FROM ai_spend").fetch_one(&pool).await.expect("a count");
    pool.close().await;
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn of_very_many_costs_the_oldest_are_added_up_and_none_is_lost() {
    let controller = Simulation::boot().await;
    let (client, _) =
        create_client(&controller, json!({"external_id": "acme", "monthly_ai_cap_usd": 1.5})).await;
    let id = id_of(&client);
    let path = format!("/v1/accounts/{id}/spend");
    let spend = async |entry: &str, usd: f64| {
        controller.post(&path, json!({"entry_id": entry, "amount_usd": usd})).await
    };
    // The maximum number of costs of this month with rows of their own, a millionth of a dollar each, and one
    // of last month.
    let start = clock::now().months_before(0).as_i64();
    controller
        .sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
             INSERT INTO ai_spend (id, account_id, client_id, amount, note, spent_at) \
             SELECT '{id} old ' || n.i, account_id, id, 1, '', {start} - 1 + n.i FROM clients, n WHERE id = '{id}'"
        ))
        .await;
    for (entry, total) in [("one", 0.51), ("two", 1.01)] {
        let written = spend(entry, 0.5).await;
        assert_eq!(written.status, 200, "{}", written.body);
        assert_eq!(
            (&written.body["repeated"], &written.body["ai_spend_usd"]),
            (&json!(false), &json!(total))
        );
        let again = spend(entry, 0.5).await;
        assert_eq!((&again.body["repeated"], &again.body["ai_spend_usd"]), (&json!(true), &json!(total)));
    }
    assert_eq!(rows(&controller).await, 10_001, "last month must be unchanged");
    let above = spend("three", 0.5).await;
    assert_eq!((above.status, &above.body["code"]), (402, &json!("credits_exhausted")), "{}", above.body);
    // A sum beyond the representable range is an error.
    controller.sql(&format!("UPDATE clients SET monthly_ai_cap = NULL WHERE id = '{id}'")).await;
    controller
        .sql(&format!("UPDATE ai_spend SET amount = {} WHERE id = '{id} one'", i64::MAX - 1_000_000))
        .await;
    assert_eq!(spend("four", 1.0).await.status, 400);
    assert_eq!(spend("five", 0.25).await.status, 200);
}
