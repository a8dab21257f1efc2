//! Do screens of computers reach RTMP servers over saved connections, and do the keys to them stay secret?

#[path = "streaming/computers.rs"]
mod computers;
#[path = "streaming/connections.rs"]
mod connections;
