import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";

/** Text of a model or a tool. Images are links: the page sends no request to another host. */
export function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={{ a: ExternalLink, img: ImageLink }}>{text}</ReactMarkdown>
    </div>
  );
}

function ExternalLink({ href, children }: { href?: string | undefined; children?: React.ReactNode }) {
  return <a href={href} target="_blank" rel="noreferrer noopener">{children}</a>;
}

function ImageLink({ src, alt }: { src?: unknown; alt?: string | undefined }) {
  const href = typeof src === "string" ? src : "";
  if (href.startsWith("data:image/")) return <img src={href} alt={alt ?? ""} />;
  return <ExternalLink href={href}>{alt === undefined || alt === "" ? href : alt}</ExternalLink>;
}
