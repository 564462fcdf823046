interface ButtonProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "primary" | "plain" | "quiet" | "danger";
}

export function Button({ kind = "plain", type = "button", className = "", ...rest }: ButtonProps) {
  return <button type={type} className={`button ${kind} ${className}`} {...rest} />;
}
