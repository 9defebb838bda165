"""What one reader has before them: address, inputs kept, answers, uploads, rights."""
