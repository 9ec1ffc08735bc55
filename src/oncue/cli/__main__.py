from oncue.cli.app import main

main()
