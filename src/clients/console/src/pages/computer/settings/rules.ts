// Form of a destination in an egress policy (docs/egress.md, "Rules"). The service has the last word.

/** Returns what is wrong with a destination, in words; undefined when its form is right. */
export function ruleFault(rule: string): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(rule)) return "write the name alone, without http:// and without a path";
  if (/\s|,/.test(rule)) return "write each destination on a line of its own";
  // IPv6 has many forms; the service checks them.
  if ((rule.match(/:/g) ?? []).length > 1) return undefined;
  if (rule.includes(":")) return "write no port: all ports of a destination are reached";
  if (/^[\d./]+$/.test(rule)) return addressFault(rule);
  if (rule.includes("/")) return "write the name alone, without a path";
  if (rule.slice(1).includes("*") || (rule.startsWith("*") && !rule.startsWith("*."))) {
    return "a star stands only at the beginning, as in *.example.com";
  }
  return undefined;
}

function addressFault(rule: string): string | undefined {
  const [address = "", length, ...rest] = rule.split("/");
  const parts = address.split(".");
  const isAddress = parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255);
  if (!isAddress || rest.length > 0) return `${rule} is no address: write four numbers up to 255, as in 192.0.2.7`;
  const isLength = length === undefined || (/^\d{1,2}$/.test(length) && Number(length) <= 32);
  return isLength ? undefined : "the number after the slash is 0 to 32, as in 192.0.2.0/24";
}
