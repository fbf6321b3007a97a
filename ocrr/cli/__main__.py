from ocrr.cli import main

main()
