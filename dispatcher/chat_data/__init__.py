"""What is stored of a chat, whole: given out (export) or erased (forget)."""
