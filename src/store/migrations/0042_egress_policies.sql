-- Which destinations a computer reaches: `allow` or `block` and the rules, with spaces between them; NULL without a policy.
ALTER TABLE computers ADD COLUMN egress_policy TEXT;
