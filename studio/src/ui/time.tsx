const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000]];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** How long ago something was; the exact time is its title. */
export function Ago({ time }: { time: string }) {
  return <time dateTime={time} title={new Date(time).toLocaleString()}>{relativeTime(time)}</time>;
}

function relativeTime(time: string): string {
  const elapsed = Date.now() - Date.parse(time);
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(elapsed) >= ms) ?? ["second", 1000];
  return RELATIVE.format(-Math.round(elapsed / size), unit);
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  return milliseconds < 60_000 ? `${(milliseconds / 1000).toFixed(1)} s` : `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}
