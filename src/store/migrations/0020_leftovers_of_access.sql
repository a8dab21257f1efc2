-- What an entry of the audit log is about beyond its route: a word of the house, as 'sign_in'. NULL: the route says it all.
ALTER TABLE audit ADD COLUMN action TEXT;
-- As of when each field was said by the payment service or the operator: an older event that comes late changes no newer field.
ALTER TABLE accounts ADD COLUMN plan_as_of BIGINT;
ALTER TABLE accounts ADD COLUMN payment_as_of BIGINT;
ALTER TABLE computers ADD COLUMN billing_as_of BIGINT;
ALTER TABLE computers ADD COLUMN payment_as_of BIGINT;
ALTER TABLE computers ADD COLUMN trial_as_of BIGINT;
ALTER TABLE computers ADD COLUMN device_as_of BIGINT;
-- Why a computer does not run any more, where the service ended it by itself: 'trial_ended'.
ALTER TABLE computers ADD COLUMN status_reason TEXT;
