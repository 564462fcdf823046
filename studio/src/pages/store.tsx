export default function StorePage() {
  return <div className="page"><h1>Store</h1></div>;
}
