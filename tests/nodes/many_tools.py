"""A catalogue as an office with many MCP servers has it: more than 200 tools, described in our own words."""

from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

# One tool a line: name | description | parameters.
CATALOGUE = """
filesystem_read_text_file | Return the contents of one text file | path head tail
filesystem_read_media_file | Return an image or audio file as base64 | path
filesystem_read_multiple_files | Return the contents of several files at once | paths
filesystem_write_file | Create a file or overwrite it with new content | path content
filesystem_edit_file | Replace lines in a text file and return a diff | path edits dry_run
filesystem_create_directory | Make sure that a directory exists | path
filesystem_list_directory | List the files and directories in a directory | path
filesystem_list_directory_with_sizes | List a directory together with the size of each entry | path sort_by
filesystem_directory_tree | Return a recursive tree of files and directories as JSON | path exclude_patterns
filesystem_move_file | Move or rename a file or directory | source destination
filesystem_search_files | Find files whose name matches a pattern, recursively | path pattern
filesystem_get_file_info | Return size, dates and permissions of a file | path
filesystem_list_allowed_directories | List the directories that may be accessed |
memory_create_entities | Add entities to the knowledge graph | entities
memory_create_relations | Connect entities of the knowledge graph with relations | relations
memory_add_observations | Attach observations to known entities | observations
memory_delete_entities | Remove entities and their relations from the knowledge graph | entity_names
memory_delete_observations | Remove observations from entities | deletions
memory_delete_relations | Remove relations from the knowledge graph | relations
memory_read_graph | Return the whole knowledge graph |
memory_search_nodes | Search nodes of the knowledge graph by text | query
memory_open_nodes | Return certain nodes of the knowledge graph by name | names
everything_echo | Return the text it was given | message
everything_get_env | Return the environment variables of the server |
everything_get_sum | Add two numbers | a b
everything_get_tiny_image | Return a very small picture |
everything_trigger_long_running_operation | Work for a while and report progress | duration steps
everything_toggle_simulated_logging | Switch random log messages on or off |
sequentialthinking | Think about a problem in numbered steps that may be revised | thought thought_number total_thoughts
firecrawl_scrape | Extract the content of a single web page as markdown, HTML or JSON | url formats only_main_content
firecrawl_map | Discover all indexed URLs of a website | url search limit
firecrawl_search | Search the web and optionally extract content from the results | query limit sources
firecrawl_crawl | Start a crawl job that follows the links of a website | url max_depth limit
firecrawl_check_crawl_status | Return status and results of a crawl job | id
firecrawl_extract | Extract structured information from web pages with a prompt and schema | urls prompt schema
firecrawl_agent | Let an autonomous agent research a question on the web | prompt urls
firecrawl_agent_status | Return status and results of an agent job | id
brave_web_search | Search the web with Brave and return titles, links and snippets | query count freshness
brave_local_search | Search for local businesses and places such as restaurants nearby | query count
brave_video_search | Search the web for videos | query count
brave_image_search | Search the web for images | query count
brave_news_search | Search recent news articles | query freshness
brave_summarizer | Summarise search results with AI from a summary key | key
brave_place_search | Return details of a place | id
supabase_list_organizations | List all organizations that the user is a member of |
supabase_get_organization | Return details of an organization and its subscription plan | id
supabase_list_projects | List all Supabase projects |
supabase_create_project | Create a new Supabase project | name region organization_id
supabase_pause_project | Pause a project | project_id
supabase_restore_project | Restore a paused project | project_id
supabase_list_tables | List all tables in the schemas of a database | project_id schemas
supabase_list_extensions | List all extensions of a database | project_id
supabase_list_migrations | List all migrations of a database | project_id
supabase_apply_migration | Apply a migration with DDL to a database | project_id name query
supabase_execute_sql | Execute raw SQL in the Postgres database | project_id query
supabase_query_logs | Query the logs of a project by service type | project_id service
supabase_get_advisors | Return advisory notices about security and performance | project_id type
supabase_get_project_url | Return the API URL of a project | project_id
supabase_generate_typescript_types | Generate TypeScript types for a project | project_id
supabase_list_edge_functions | List all edge functions of a project | project_id
supabase_deploy_edge_function | Deploy an edge function | project_id name files
supabase_create_branch | Create a development branch of a project | project_id name
supabase_merge_branch | Merge migrations and functions of a branch into production | branch_id
git_status | Show the working tree status | repo_path
git_diff_unstaged | Show changes in the working directory that are not staged | repo_path
git_diff_staged | Show changes that are staged for commit | repo_path
git_diff | Show differences between branches or commits | repo_path target
git_commit | Record changes to the repository | repo_path message
git_add | Add file contents to the staging area | repo_path files
git_reset | Unstage all staged changes | repo_path
git_log | Show the commit log | repo_path max_count
git_create_branch | Create a new branch from an optional base branch | repo_path branch_name base_branch
git_checkout | Switch branches | repo_path branch_name
git_show | Show the contents of a commit | repo_path revision
git_branch | List branches | repo_path branch_type
fetch_fetch | Fetch a URL from the internet and return its contents as markdown | url max_length start_index
time_get_current_time | Return the current time in a timezone | timezone
time_convert_time | Convert a time between timezones | source_timezone time target_timezone
todo_create_todo | Create a todo with title, priority and due date | title description priority due_date tags
todo_list_todos | List todos by status, priority, tag or due date | status priority tag due_before
todo_update_todo | Change a todo or mark it as completed | id title status priority
todo_search_todos | Search todos by full text | query limit
todo_delete_todo | Delete a todo | id
github_create_issue | Open a new issue in a repository | owner repo title body labels
github_list_issues | List the issues of a repository | owner repo state labels
github_get_issue | Return one issue with its comments | owner repo number
github_add_issue_comment | Comment on an issue or pull request | owner repo number body
github_close_issue | Close an issue | owner repo number
github_create_pull_request | Open a pull request from a branch | owner repo title head base
github_list_pull_requests | List the pull requests of a repository | owner repo state
github_merge_pull_request | Merge a pull request | owner repo number method
github_get_pull_request_files | List the files that a pull request changes | owner repo number
github_review_pull_request | Approve a pull request or request changes | owner repo number event body
github_search_code | Search code across repositories | query
github_search_repositories | Search for repositories | query
github_create_repository | Create a new repository for the user | name private
github_fork_repository | Fork a repository | owner repo
github_list_commits | List commits of a branch | owner repo sha
github_get_file_contents | Return a file or directory of a repository | owner repo path ref
github_run_workflow | Trigger an Actions workflow | owner repo workflow ref
github_list_workflow_runs | List recent runs of Actions workflows and how they ended | owner repo workflow
slack_post_message | Post a message to a Slack channel | channel text
slack_reply_to_thread | Reply in a message thread | channel thread_ts text
slack_add_reaction | React to a message with an emoji | channel timestamp emoji
slack_list_channels | List the channels of the workspace | limit
slack_get_channel_history | Return the latest messages of a channel | channel limit
slack_get_users | List the members of the workspace | limit
slack_get_user_profile | Return the profile of a member | user_id
slack_upload_file | Share a file in a channel | channel path
gmail_search_messages | Search e-mails with Gmail's query syntax | query max_results
gmail_read_message | Return one e-mail with its attachments' names | message_id
gmail_send_message | Send an e-mail | to subject body cc bcc
gmail_create_draft | Save an e-mail as a draft without sending it | to subject body
gmail_reply | Answer an e-mail in its thread | message_id body
gmail_label_message | Put a label on an e-mail or take one off | message_id label
gmail_delete_message | Move an e-mail to the trash | message_id
gmail_download_attachment | Save an attachment of an e-mail to disk | message_id filename path
calendar_list_events | List the events between two dates | start end
calendar_create_event | Put an event into the calendar and invite guests | title start end attendees location
calendar_update_event | Move an event or change its details | event_id title start end
calendar_delete_event | Cancel an event | event_id
calendar_find_free_time | Find free slots that suit all attendees | attendees duration start end
calendar_respond_to_invitation | Accept or decline an invitation | event_id response
drive_search | Search documents in Google Drive | query
drive_read_document | Return the text of a document | file_id
drive_upload | Upload a local file to Drive | path folder_id
drive_share | Give somebody access to a document | file_id email role
sheets_read_range | Return the cells of a spreadsheet range | spreadsheet_id range
sheets_write_range | Write values into a spreadsheet range | spreadsheet_id range values
sheets_append_row | Append a row at the end of a sheet | spreadsheet_id values
notion_search | Search pages and databases in Notion | query
notion_create_page | Create a page under a parent | parent title content
notion_append_blocks | Append blocks to a page | page_id blocks
notion_query_database | Query the rows of a Notion database with a filter | database_id filter
jira_create_ticket | Create a Jira ticket | project summary description issue_type
jira_transition_ticket | Move a ticket to another status such as Done | key transition
jira_assign_ticket | Assign a ticket to a person | key assignee
jira_search_tickets | Search tickets with JQL | jql
jira_add_comment | Comment on a ticket | key body
jira_log_work | Record time spent on a ticket | key hours
jira_list_sprints | List the sprints of a board | board_id
linear_create_issue | Create a Linear issue | team title description
linear_list_cycles | List the cycles of a team | team
linear_update_issue | Change state or assignee of a Linear issue | id state assignee
docker_list_containers | List containers, running or stopped | all
docker_start_container | Start a stopped container | container
docker_stop_container | Stop a running container | container timeout
docker_container_logs | Return the log output of a container | container tail
docker_build_image | Build an image from a Dockerfile | path tag
docker_list_images | List local images |
docker_remove_image | Remove a local image | image
docker_exec | Run a command inside a container | container command
docker_prune | Free disk space by removing unused data |
k8s_list_pods | List the pods in a namespace | namespace
k8s_get_pod_logs | Return the logs of a pod | namespace pod
k8s_scale_deployment | Change the number of replicas of a deployment | namespace deployment replicas
k8s_rollout_restart | Restart the pods of a deployment one after the other | namespace deployment
k8s_rollback_deployment | Go back to the former revision of a deployment | namespace deployment
k8s_apply_manifest | Apply a YAML manifest | manifest
k8s_describe_node | Describe a cluster node and its conditions | node
k8s_delete_pod | Delete a pod | namespace pod
aws_list_buckets | List all S3 buckets |
aws_upload_object | Upload an object to S3 | bucket key path
aws_presign_url | Make a temporary download link for an S3 object | bucket key expires
aws_list_instances | List EC2 instances | region state
aws_start_instance | Start an EC2 instance | instance_id
aws_stop_instance | Stop an EC2 instance | instance_id
aws_get_cost_report | Return the costs of the account by service and month | start end
aws_invoke_lambda | Invoke a Lambda function | function payload
stripe_create_customer | Create a customer | name email
stripe_list_payments | List payments | customer limit
stripe_refund_payment | Refund a payment in part or whole | payment amount
stripe_create_invoice | Create an invoice for a customer | customer items
stripe_cancel_subscription | Cancel a customer's subscription | subscription
stripe_get_balance | Return the account balance |
spotify_search_tracks | Search songs, artists and albums | query
spotify_play | Play a song or playlist | uri device
spotify_pause | Pause playback |
spotify_create_playlist | Create a playlist | name tracks
spotify_add_to_queue | Add a song to the queue | uri
weather_get_forecast | Return the weather forecast for a place | location days
weather_get_current | Return current temperature, wind and rain for a place | location
weather_get_alerts | Return severe weather warnings for a region | region
maps_geocode | Find the coordinates of an address | address
maps_directions | Find a route between two places by car, bicycle or on foot | origin destination mode
maps_search_nearby | Find shops, restaurants and sights around a point | location radius type
maps_distance_matrix | Return distances and travel times between many places | origins destinations
flights_search | Search flights between airports on a date | origin destination date passengers
flights_get_status | Return whether a flight is on time | flight_number date
hotels_search | Search hotels with free rooms | city checkin checkout guests
hotels_book | Book a hotel room | hotel_id checkin checkout guest
currency_convert | Convert an amount between currencies at today's rate | amount source target
stocks_get_quote | Return the current price of a share | symbol
stocks_get_history | Return daily prices of a share | symbol start end
crypto_get_price | Return the price of a cryptocurrency | symbol currency
translate_text | Translate a text into another language | text target_language
translate_detect_language | Detect the language of a text | text
pdf_extract_text | Extract the text of a PDF | path pages
pdf_merge | Join several PDFs into one | paths output
pdf_split | Split a PDF into single pages | path output
image_resize | Resize a picture | path width height
image_generate | Paint a picture from a description | prompt size
image_ocr | Recognise the text in a picture or scan | path language
audio_transcribe | Write down what is said in a recording | path language
audio_synthesize | Read a text aloud into an audio file | text voice
video_trim | Cut a part out of a video | path start end
browser_navigate | Open a page in the browser | url
browser_click | Click an element of the page | selector
browser_fill_form | Fill in the fields of a form | fields
browser_take_screenshot | Take a screenshot of the page | full_page
browser_evaluate | Run JavaScript in the page | script
postgres_query | Run a read-only query | sql
postgres_explain | Show the plan of a query | sql
redis_get | Return the value of a key | key
redis_set | Store a value under a key | key value ttl
redis_list_keys | List keys that match a pattern | pattern
home_turn_on_light | Switch a lamp on | room brightness
home_turn_off_light | Switch a lamp off | room
home_set_thermostat | Set the heating to a temperature | room temperature
home_lock_door | Lock a door | door
home_start_vacuum | Let the robot clean the floor | rooms
contacts_search | Find a person's phone number and address | name
contacts_create | Add a person to the address book | name phone email
sms_send | Send a text message to a phone number | to text
phone_call | Call a phone number | to
crm_create_lead | Add a sales lead | name company email
crm_list_deals | List deals by stage | stage
crm_update_deal_stage | Move a deal to another stage of the pipeline | deal_id stage
sentry_list_errors | List unresolved errors of a project | project
sentry_get_stacktrace | Return the stack trace of an error | issue_id
grafana_query_metrics | Query metrics with PromQL | query start end
grafana_list_dashboards | List dashboards |
pagerduty_list_incidents | List open incidents | status
pagerduty_acknowledge | Acknowledge an incident | incident_id
pagerduty_who_is_on_call | Tell who is on call for a service | service
python_run | Run Python code in a sandbox | code
math_calculate | Evaluate a mathematical expression | expression
wikipedia_search | Search Wikipedia articles | query
wikipedia_summary | Return the summary of a Wikipedia article | title
arxiv_search | Search scientific papers on arXiv | query max_results
youtube_get_transcript | Return the transcript of a YouTube video | video_id
rss_read_feed | Return the newest entries of a news feed | url limit
zendesk_create_ticket | Open a support ticket for a customer | subject body requester
zendesk_list_tickets | List support tickets | status
recipes_search | Search recipes by ingredients | ingredients diet
fitness_log_workout | Record a workout | activity minutes
""".strip()


def many_tools() -> list[BaseTool]:
    return [_tool(*(part.strip() for part in line.split("|"))) for line in CATALOGUE.splitlines()]


def _tool(name: str, description: str, parameters: str) -> BaseTool:
    schema: dict[str, Any] = {"type": "object", "properties": {word: {"type": "string"} for word in parameters.split()}}

    async def run(**arguments: Any) -> str:
        return f"{name} {sorted(arguments)}"

    return StructuredTool(name=name, description=description, args_schema=schema, coroutine=run)
