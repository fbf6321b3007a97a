from ocrrlib.cli import main

main()
