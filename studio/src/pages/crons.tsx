export default function CronsPage() {
  return <div className="page"><h1>Crons</h1></div>;
}
