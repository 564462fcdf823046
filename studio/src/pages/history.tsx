export default function HistoryPage() {
  return <div className="page"><h1>History</h1></div>;
}
