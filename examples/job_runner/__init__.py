"""Run jobs behind HTTP: the service that execute_job and check_job_status can be tried with."""
