from adagq.cli import main

main()
